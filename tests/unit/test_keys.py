from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import TypeAdapter, ValidationError

from causalveil.schemas.errors import CausalveilError
from causalveil.schemas.privacy import LOW_ORDER, PublicKey
from causalveil.tasks.machine.site import home
from causalveil.tasks.privacy.keys import RunKey, is_signed, key_of, owner_key, run_key, simulated_key, site_secret
from tests.ledger_help import contract

SECRET = bytes(range(32))


def test_home_follows_the_environment_and_is_private(tmp_path, monkeypatch):
    monkeypatch.setenv("CAUSALVEIL_HOME", str(tmp_path / "a" / "b"))
    assert home() == tmp_path / "a" / "b"
    assert home().stat().st_mode & 0o777 == 0o700
    for mode in (0o777, 0o770, 0o720, 0o702):
        (tmp_path / "a" / "b").chmod(mode)
        with pytest.raises(CausalveilError, match="chmod go-w"):
            home()


def test_home_that_is_a_file_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CAUSALVEIL_HOME", str(tmp_path / "file"))
    with pytest.raises(CausalveilError, match="CAUSALVEIL_HOME"):
        home()


def test_secret_is_made_once_with_mode_0600():
    previous = os.umask(0)
    try:
        first = site_secret()
    finally:
        os.umask(previous)
    assert len(first) == 32
    assert site_secret() == first
    assert (home() / "site.key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in home().iterdir()] == ["site.key"]


def test_many_at_once_agree_on_one_secret():
    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(lambda _: site_secret(), range(64)))) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666])
def test_a_secret_that_others_can_open_is_refused_with_the_remedy(mode):
    site_secret()
    (home() / "site.key").chmod(mode)
    with pytest.raises(CausalveilError, match="chmod 600"):
        run_key("run")


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_damaged_secret_is_refused_and_not_replaced(size):
    path = home() / "site.key"
    path.write_bytes(bytes(size))
    path.chmod(0o600)
    with pytest.raises(CausalveilError, match="32 bytes"):
        run_key("run")
    assert path.stat().st_size == size


def test_links_and_fifos_are_refused(tmp_path):
    path = home() / "site.key"
    (tmp_path / "other").write_bytes(SECRET)
    path.symlink_to(tmp_path / "other")
    with pytest.raises(CausalveilError, match="cannot be read"):
        site_secret()
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(CausalveilError, match="regular file"):
        site_secret()


def test_run_key_is_hkdf_sha256():
    """RFC 5869 by hand: extract with a zero salt, expand one block."""
    import hashlib
    import hmac

    extracted = hmac.new(bytes(32), SECRET, hashlib.sha256).digest()
    expanded = hmac.new(extracted, b"causalveil run key v1\x00run-1" + b"\x01", hashlib.sha256).digest()
    assert run_key("run-1", SECRET) == RunKey(expanded)


def test_keys_separate_runs_purposes_and_secrets():
    keys = [run_key("a", SECRET), run_key("b", SECRET), run_key("a", bytes(32)), simulated_key(1), simulated_key(2)]
    values = [value for key in keys for value in (key.subkey("x"), key.subkey("y"), bytes.fromhex(key.check))]
    assert len(set(values)) == len(values)
    assert {len(value) for value in values} == {16}
    assert run_key("a", SECRET) == keys[0]


def test_key_of_takes_the_seed_if_there_is_one():
    assert key_of("run") == run_key("run")
    assert key_of("run", 0) == simulated_key(0) == key_of("other", 0)


def test_a_key_does_not_print():
    key = run_key("a", SECRET)
    shown = repr(key) + str(key)
    assert key.subkey("x").hex() not in shown
    assert repr(pickle.loads(pickle.dumps(key))) == "RunKey()"
    with pytest.raises(CausalveilError):
        RunKey(b"short")


# Keys of low order are nobody's: the list is derived here from the curve's equation, and each key is refused.
P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
KEY: TypeAdapter[str] = TypeAdapter(PublicKey)
Point = tuple[int, int]


def plus(left: Point, right: Point) -> Point:
    """The group law of the twisted Edwards curve -x^2 + y^2 = 1 + d x^2 y^2 (RFC 8032, section 5.1)."""
    (x1, y1), (x2, y2) = left, right
    product = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P) % P
    y = (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P
    return x, y


def xs(y: int) -> list[int]:
    """Both x with (x, y) on the curve."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    root = pow(square, (P + 3) // 8, P)
    if (root * root - square) % P:
        root = root * pow(2, (P - 1) // 4, P) % P
    return sorted({root, -root % P}) if (root * root - square) % P == 0 else []


def times_eight(point: Point) -> Point:
    for _ in range(3):
        point = plus(point, point)
    return point


def text(y: int, sign: int) -> str:
    return f"ed25519:{(y | sign << 255).to_bytes(32, 'little').hex()}"


def test_the_list_holds_all_eight_points_and_nothing_else() -> None:
    points = [(x, y) for y in LOW_ORDER for x in xs(y)]
    assert len(points) == 8, "the subgroup of the cofactor has eight points"
    assert {times_eight(point) for point in points} == {(0, 1)}
    assert {plus(a, b) for a in points for b in points} == set(points)
    ordinary = next((x, y) for y in range(2, 50) for x in xs(y))
    assert times_eight(ordinary) != (0, 1)


@pytest.mark.parametrize("sign", [0, 1])
def test_every_spelling_of_them_is_refused(sign: int) -> None:
    spellings = {*LOW_ORDER, *(y + P for y in LOW_ORDER if y + P < 2**255)}
    assert len(spellings) == 7
    for y in spellings:
        with pytest.raises(ValidationError, match="low order"):
            KEY.validate_python(text(y, sign))


def test_under_such_a_key_nobody_s_signature_passes_for_somebody_s() -> None:
    """Why it matters: with the neutral point as key, R = s B is a signature of every message."""
    neutral = text(1, 0)
    forged = (1).to_bytes(32, "little").hex() + (0).to_bytes(32, "little").hex()
    assert is_signed(neutral, forged, b"any message")
    with pytest.raises(ValidationError):
        contract(owner_key=neutral)


def test_a_real_key_passes() -> None:
    key = owner_key(create=True).public
    assert KEY.validate_python(key) == key
