from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from causalveil.schemas.errors import CausalveilError
from causalveil.tasks.machine.site import home
from causalveil.tasks.privacy.keys import RunKey, key_of, run_key, simulated_key, site_secret

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
