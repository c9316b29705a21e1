-- renew.lua is redislock's refresh, then a mark of when the holder was last heard of.
-- KEYS  1 lock  6 meta    ARGV  redislock's; last, nothing
-- Returns {redislock's answer, ''}. The mark is for people: without it the renewal stands.
local function lease(KEYS, ARGV)
--[[lease]]
end

table.remove(ARGV)
local got = lease({ KEYS[1] }, ARGV)
if got then
  local clock = redis.call('TIME')
  pcall(redis.call, 'HSET', KEYS[6], 'heard', string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000)))
end
return { got, '' }
