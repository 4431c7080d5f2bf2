-- A stand-in for a warehouse: 120,000 made-up patients, each enrolled once, over the twelve months before this one.
-- A new treatment shortens the stay by one day; it was given more often to older patients.
CREATE TABLE visits AS
SELECT id AS patient,
       (start + (id % 365) * interval '1 day')::date AS enrolled,
       age,
       ward,
       treated,
       least(30, greatest(0, 8 + (age - 50) / 10 - treated::int + 2 * noise))::float8 AS days
FROM (
    SELECT id,
           date_trunc('month', now()) - interval '12 months' AS start,
           age,
           (ARRAY['east', 'north', 'west'])[1 + id % 3] AS ward,
           random() < 1 / (1 + exp(-(age - 50) / 25)) AS treated,
           random() + random() + random() - 1.5 AS noise
    FROM (SELECT id, 20 + 60 * random() AS age FROM generate_series(1, 120000) AS id) AS people
) AS visits;
