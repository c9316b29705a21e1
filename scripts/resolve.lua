-- resolve.lua settles a slot by hand: it is done, or it may be asked for once more. It writes an attempt that nobody runs
-- over the newest one, with a token of its own: from then on whatever an older attempt does or tells is stale.
-- KEYS  as in entry.lua
-- ARGV  1 question (JSON):
--   run_id try      name this attempt, so that a copy finds itself
--   slot begins from to shape   as begin.lua's; to is begins where the line is not known
--   as by reason    done | reopened; user@host, why
--   fence           as the person saw it ('': none); an attempt that began since is not settled unseen
--   channel keep    where waiters listen; slots to keep
-- Returns JSON: verdict; slot and entry, the one settled; time (ms), ttl (ms)
--   settled  it is, now or by an earlier copy of this question
--   already  it was before
--   nothing  there is nothing to reopen: the slot has not begun, and runs when it is asked for
--   held     somebody holds the job, or may still be running; slot and entry are that one's
--   old      below the low-water mark; oldest, the slot that the ledger reaches back to
--   changed  something has begun, or was settled, since the person looked
local m = meta()
local e = read(q.slot)
local held = redis.call('GET', LOCK) or ''
local fence = redis.call('GET', FENCE) or ''

local function reply(verdict, more)
  local r = more or { slot = q.slot, entry = e }
  r.verdict, r.time, r.ttl = verdict, ms, redis.call('PTTL', LOCK)
  return cjson.encode(r)
end

if is(e, q.run_id, q.try) then return reply('settled') end
if e and position(e, q.run_id, q.try) then return reply('changed') end
if held ~= '' then
  return reply('held', { slot = m.current, entry = m.current and read(m.current) or nil, told = stopped(held) and true or nil })
end
if fence ~= q.fence then return reply('changed') end
if not e and m.low and q.begins <= tonumber(m.low) then
  return reply('old', { oldest = redis.call('ZRANGE', SLOTS, 0, 0)[1] })
end
local said = e and e.state == 'merged' and read(e.into) or e
if q.as == 'done' and said and said.state == 'done' then return reply('already') end
if q.as == 'reopened' and e and e.reopened then return reply('already') end
if q.as == 'reopened' and (not e or note(e)) then return reply('nothing') end

local token = int(math.max(tonumber(fence ~= '' and fence or '0') + 1, ms))
local new = e or { state = 'missed', attempt = 0, began = ms }
-- before is the newest attempt that somebody ran, if any, and how it stood: for people it stays the newest.
local before = new.resolved or { run_id = new.run_id, try = new.try, token = new.token, was = new.state }
if new.run_id then new.earlier = list(new, new.run_id, new.try, new.began, new.state ~= 'running') end
event('resolve', 'as', q.as, 'by', q.by, 'reason', q.reason, 'token', token)
if new.state == 'running' and not new.resolved then redis.call('HINCRBY', META, 'count_uncertain', 1) end
if q.as == 'done' then
  new.state, new.reopened = 'done', nil
  if not before.run_id then new.began, new.ended = ms, ms end
else
  new.state, new.reopened, new.extra = before.was, true, (new.extra or 0) + 1
  if new.state == 'done' then new.state, new.reason = 'failed', 'reopened' end
  if not before.run_id then new.state, new.extra = 'missed', nil end -- as if nobody had ever asked for it
end
new.resolved = { as = q.as, by = q.by, at = ms, reason = q.reason, was = before.was, run_id = before.run_id,
  try = before.try, token = before.token }
new.run_id, new.try, new.token, new.noted = q.run_id, q.try, token, true
new.into, new.behind, new.kept, new.told, new.was = nil, nil, nil, nil, nil
rank(m.current)
if not new.span and q.to > q.begins then
  new.span = span()
  cover(m)
end
redis.call('SET', FENCE, token)
write(q.slot, new)
e = new
pcall(redis.call, 'PUBLISH', q.channel, q.slot)
return reply('settled')
