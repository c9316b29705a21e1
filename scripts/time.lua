-- time.lua asks for the time as every script does, and writes nothing.
-- KEYS  none
-- ARGV  none
-- Returns Redis's clock: seconds and microseconds.
return redis.call('TIME')
