-- regain.lua takes a lapsed lease back if nobody has begun since. It follows redislock's obtain in the same EVAL
-- (obtain.lua). Where Redis has lost the attempt (emptied, an old snapshot, a replica that lagged), it is written again.
-- KEYS  as in entry.lua
-- ARGV  1 question (JSON): as finish.lua's, of an attempt that is running
-- Returns JSON: verdict
--   held      the lease is this attempt's, and the ledger knows it
--   regained  so it is, and the attempt was written again
--   lost      somebody has begun since, holds the lease, or has it stopped: holder (the lock's value), entry
--   ended     the attempt's end is known: this is a late copy of the question
local held = redis.call('GET', LOCK) or ''
redis.call('PTTL', LOCK) -- for the answer: a right that lacks shows before the first write
local fence = tonumber(redis.call('GET', FENCE) or '0')
local token = tonumber(q.token)
local e = read(q.slot)

local function reply(verdict) return cjson.encode({ verdict = verdict, holder = held, entry = e, ttl = redis.call('PTTL', LOCK) }) end

-- refuse gives back what this very step may have taken.
local function refuse(verdict)
  redis.call('DEL', LOCK)
  return reply(verdict)
end

if string.sub(held, 1, 32) ~= q.run_id then return reply('lost') end
if e and e.run_id == q.run_id and (e.try > q.try or (e.try == q.try and e.state ~= 'running')) then
  local alive = e.state == 'running' or e.kept -- a later try of the same hold lives on this lease, or is to
  if alive and fence == tonumber(e.token) then return reply('held') end
  return refuse(alive and 'lost' or 'ended')
end
if fence > token then return refuse('lost') end
if is(e, q.run_id, q.try) then return reply('held') end
if e and e.run_id and e.run_id ~= q.run_id and e.attempt >= q.attempt then return refuse('lost') end
local k = e and e.run_id and position(e, q.run_id, q.try)
if k and ended(e, k) then return refuse('ended') end

local again = attempted(e)
event('regained', 'attempt', int(q.attempt), 'token', q.token, 'host', q.host .. ':' .. int(q.pid), 'user', q.user,
  'run_id', q.run_id)
restore()
redis.call('SET', FENCE, q.token)
redis.call('HSET', META, 'current', q.slot, 'heard', int(ms))
again.state = 'running'
e = again
write(q.slot, again)
return reply('regained')
