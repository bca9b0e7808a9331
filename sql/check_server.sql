-- What the machine and the rest of the service must fit: one row.
/* check server */
SELECT current_setting('server_version_num')::integer,
       current_setting('server_version'),
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
       pg_is_in_recovery(),
       current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer,
       (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend') - 1,
       current_user,
       current_setting('default_transaction_isolation')
