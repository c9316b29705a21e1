-- pause.lua lets no host start a job (begin.lua sees to that), or allows it again. A pause that is over stays in meta: what
-- was due during it has not been missed.
-- KEYS  as in entry.lua
-- ARGV  1 question (JSON):
--   id              names this command, so that a copy finds itself
--   seen            the number of the newest such command, as the person saw it; 0: none
--   what            pause | resume
--   until           ms, 0: until it is resumed
--   by reason       user@host, why
--   slot keep       '': it is of no slot; slots to keep
-- Returns JSON: verdict, and pause as meta has it now
--   paused   since, or by an earlier copy of this question; slot and entry of the run that goes on, if any
--   resumed  count, of the slots that were asked for meanwhile
--   idle     it is not paused
--   changed  it has been paused or resumed since the person looked
local p = redis.call('HGET', META, 'paused')
p = p and cjson.decode(p) or {}
local held = redis.call('GET', LOCK) or ''
local active = p.since and not (p['until'] and p['until'] <= ms)

local function reply(verdict)
  local r = { verdict = verdict, pause = p }
  if verdict == 'paused' and held ~= '' then
    r.slot = redis.call('HGET', META, 'current') or nil
    r.entry = r.slot and read(r.slot)
  end
  if verdict == 'resumed' then
    r.count = 0
    for _, slot in ipairs(redis.call('ZREVRANGE', SLOTS, 0, 999)) do
      local e = read(slot)
      if e and e.state == 'paused' and e.began >= p.since then r.count = r.count + 1 end
    end
  end
  return cjson.encode(r)
end

local verdict = q.what == 'pause' and 'paused' or 'resumed'
if p.id == q.id then return reply(p.idle and 'idle' or verdict) end
if (p.n or 0) ~= q.seen then return reply('changed') end
p.n, p.id, p.idle = q.seen + 1, q.id, q.what == 'resume' and not active or nil
if p.idle then -- a pause that is still under way comes too late from now on
  p.since, p['until'] = p.since or ms, p['until'] or ms
  redis.call('HSET', META, 'paused', cjson.encode(p))
  return reply('idle')
end
if q.what == 'pause' then
  p.since = active and p.since or ms
  p['until'], p.by, p.reason = q['until'] > 0 and q['until'] or nil, q.by, q.reason
else
  p['until'] = ms
end
event(q.what, 'by', q.by, 'reason', q.reason, 'until', q['until'] > 0 and int(q['until']) or '')
redis.call('HSET', META, 'paused', cjson.encode(p))
return reply(verdict)
