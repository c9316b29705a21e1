-- finish.lua writes how an attempt ended, once, whoever sends it and however often. redislock's release follows in the
-- same EVAL (release.lua), and only if this did not fail; an end that keeps the lease for another attempt is sent alone.
-- KEYS  as in entry.lua
-- ARGV  1 question (JSON):
--   run_id try slot begins   which attempt of which slot
--   state           done | failed | unstarted (begun, and never started: it uses up no attempt)
--   exit signal reason   exit status, or the signal's name; why it failed, if not by itself
--   kept            true: the same process tries again, the lease stays
--   from to shape   as begin was asked
--   token attempt began took   as begin gave them; how long it ran, ms
--   host machine pid user by_hand args line version   as begin was asked
--   every schedule day_start attempts lease zone offsets zone_year zone_from   for a meta that Redis has lost
--   listed          true: the job is in the list of jobs
--   channel         where waiters listen
--   keep            slots to keep
-- Returns JSON: verdict ok | already (told before) | stale (a newer attempt stands) | late (forgotten: below the
--   low-water mark), and the entry as it is now
local e = read(q.slot)
local low = tonumber(redis.call('HGET', META, 'low') or '-1')
local unstarted = q.state == 'unstarted'

-- reply answers. Who has not started leaves for good, and may not know that it has the lease.
local function reply(verdict)
  if unstarted and holder() == q.run_id then redis.call('DEL', LOCK) end
  return cjson.encode({ verdict = verdict, entry = e })
end

-- told logs it. Who has had no answer does not know its attempt and token; the entry does.
local function told(kind)
  local known = is(e, q.run_id, q.try) and e or q
  event(kind, 'attempt', int(known.attempt), 'token', known.token, 'host', q.host .. ':' .. int(q.pid), 'user', q.user,
    'state', q.state, 'exit', q.exit, 'signal', q.signal, 'reason', q.reason, 'kept', q.kept and '1' or '',
    'took', int(q.took))
end

local function settle()
  e.state = unstarted and (e.was or 'failed') or q.state
  e.was = nil
  e.ended = e.began + q.took
  e.exit = q.exit ~= '' and tonumber(q.exit) or nil
  e.signal = q.signal ~= '' and q.signal or nil
  e.reason = q.reason ~= '' and q.reason or nil
  e.kept = q.kept or nil
  e.told = nil
  if unstarted then e.attempt, e.reopened = e.attempt - 1, e.reopening end
  e.reopening = nil
end

-- A stopped holder's lock tells the others to keep away until it must have stopped. It has.
local function unstop()
  if stopped(redis.call('GET', LOCK) or '') == q.run_id then redis.call('DEL', LOCK) end
end

local function publish() pcall(redis.call, 'PUBLISH', q.channel, q.slot) end

if q.listed and redis.call('HEXISTS', META, 'attempts') == 1 then redis.call('HSET', META, 'listed', '1') end

-- 1. Told before.
if is(e, q.run_id, q.try) and e.state ~= 'running' then
  if e.kept and not q.kept then
    e.kept = nil
    write(q.slot, e)
    publish()
  end
  return reply('already')
end
local k = e and e.run_id and position(e, q.run_id, q.try)
if k and ended(e, k) then return reply('already') end
if e and e.run_id == q.run_id and q.try < e.try then return reply('already') end

-- 2. The newest attempt of its slot.
if is(e, q.run_id, q.try) then
  told('end')
  redis.call('HINCRBY', META, 'count_' .. (unstarted and 'unstarted' or q.state), 1)
  settle()
  unstop()
  write(q.slot, e)
  publish()
  return reply('ok')
end

-- 3. Redis has lost the attempt, or never had it: there is no entry, or that of an attempt before.
local newer = e and not k and not unstarted and q.attempt > e.attempt and tonumber(q.token) > tonumber(e.token or '0')
if not e or not e.run_id or newer then
  if q.begins <= low and not e then -- forgotten, not lost
    if not unstarted then told('late') end
    return reply('late')
  end
  if not unstarted then
    told('end')
    redis.call('HINCRBY', META, 'count_' .. q.state, 1)
    if tonumber(redis.call('GET', FENCE) or '0') < tonumber(q.token) then redis.call('SET', FENCE, q.token) end
  end
  restore()
  e = attempted(e)
  settle()
  write(q.slot, e)
  publish()
  return reply('ok')
end

-- 4. An attempt that was overtaken: marked as ended, never written over the newer one. One that never started has
-- had no effect, so it is no doubled one.
if k then
  e.earlier[k] = e.earlier[k] .. '+'
else
  e.earlier = list(e, q.run_id, q.try, ms, true)
end
if unstarted then
  if e.run_id == q.run_id then e.kept = nil end
  write(q.slot, e)
  return reply('ok')
end
told('stale')
redis.call('HINCRBY', META, 'count_stale', 1)
e.stale = (e.stale or 0) + 1
write(q.slot, e)
return reply('stale')
