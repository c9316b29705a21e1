-- obtain.lua is one step: redislock's obtain, then ours (begin or regain).
-- KEYS  1 lock, then the others of ours    ARGV  redislock's; last, the question of ours
-- Returns {redislock's answer, ours}; an error of ours gives the lease back and is returned.
local function lease(KEYS, ARGV)
--[[lease]]
end
local function ours(KEYS, ARGV)
--[[ours]]
end

local question = table.remove(ARGV)
local before = redis.call('GET', KEYS[1])
-- Without the right to delete or to set a time nobody could give back what is about to be taken: on an absent key
-- both change nothing, and fail here, where nothing is held yet. Redis refuses a script for want of memory at its first
-- write or never, so the first is one that wants some.
if not before then
  redis.call('SET', KEYS[1], '', 'XX')
  redis.call('DEL', KEYS[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
local got = lease({ KEYS[1] }, ARGV)
local fine, answer = pcall(ours, KEYS, { question })
if fine then return { got, answer } end
-- A lock that was ours already may be a living run's: this is then a late copy of its question.
if got and before ~= ARGV[1] then redis.call('DEL', KEYS[1]) end
return redis.error_reply(type(answer) == 'table' and answer.err or answer)
