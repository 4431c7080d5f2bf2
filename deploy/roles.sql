-- Three roles and their databases: Prefect's server, the ledger, and a reader of the warehouse. Once, as a superuser;
-- the passwords come from the environment (psql 15 or newer) and stand in no command.
\set ON_ERROR_STOP on
\getenv prefect_password PREFECT_PASSWORD
\getenv ledger_password LEDGER_PASSWORD
\getenv warehouse_password WAREHOUSE_PASSWORD

CREATE ROLE causalveil_prefect LOGIN PASSWORD :'prefect_password';
CREATE ROLE causalveil_ledger LOGIN PASSWORD :'ledger_password';
CREATE ROLE causalveil_warehouse LOGIN PASSWORD :'warehouse_password';
ALTER ROLE causalveil_warehouse SET default_transaction_read_only = on;

-- A cluster that was made without a locale has another encoding by default.
CREATE DATABASE prefect OWNER causalveil_prefect TEMPLATE template0 ENCODING 'UTF8';
CREATE DATABASE ledger OWNER causalveil_ledger TEMPLATE template0 ENCODING 'UTF8';
CREATE DATABASE warehouse TEMPLATE template0 ENCODING 'UTF8';
-- Nobody connects to a database that is not theirs.
REVOKE ALL ON DATABASE prefect, ledger, warehouse FROM PUBLIC;
GRANT CONNECT ON DATABASE warehouse TO causalveil_warehouse;

\connect warehouse
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
-- Of tables that the superuser makes here, as the example does; a warehouse of your own grants what flows need.
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO causalveil_warehouse;
