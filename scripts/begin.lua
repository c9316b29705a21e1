-- begin.lua decides about a slot and, if it may run, writes the attempt and gives its token. It follows redislock's
-- obtain in the same EVAL (obtain.lua), or stands alone when only asked what would happen (dry).
-- KEYS  as in entry.lua
-- ARGV  1 question (JSON):
--   run_id try      name the attempt; run_id is the lock's token too
--   slot begins     the slot's name; its beginning, ms
--   from to shape   the time that it covers, ms; the line that made it, for "one shape at a time"
--   now             the host's clock, ms, read just before sending
--   attempts        starts allowed, over all hosts
--   rerun           '', or why one further attempt is wanted
--   overlap         skip | wait: what to do while another slot of the job runs
--   previous        beginning of the line's slot before this one, ms; 0 if missed slots are not to be found
--   catch_up        none | each | merge: what becomes of missed and skipped slots
--   caught          true: that has been seen to, and then
--   covers passed   of merge: the slots that this run is to cover, oldest first; slots that are not to be caught up with
--   zone offsets zone_year   IANA name; year -> its UTC offsets in January and July; this year
--   zone_from       default | explicit | date: where the zone comes from
--   args            '', or the hash of the arguments where the name comes from the command
--   line            hash of the command line
--   minute          '', or the host's wall clock, HH:MM, of a line that does not say how often it runs
--   host machine pid user by_hand version   who asks; machine is '' where --host names it
--   every schedule day_start lease dated     the line: period or fields, HH:MM, ms; dated: asked with --date
--   keep            slots to keep
--   dry             true: decide, write nothing
-- Returns JSON: verdict, and what it is said with:
--   run      token attempt, left (attempts after it); entry is the one before, if any; first, the first slot that it
--            covers; earlier and its entry, another slot of the job that ended uncertain or interrupted, told once
--   gap      it could run, but earlier slots are to be seen to first: accounted (ms), if there are slots of the line
--            between that and this one; owed, the names of missed and skipped slots, newest first
--   lost     this attempt was begun, and its lease is no longer its own
--   ended    this attempt was begun, and its end is known
--   clock zone shape args line notdaily    hosts or lines disagree; other, of shape: the slot met, its host and line
--   old      below the low-water mark; oldest, the slot that the ledger reaches back to
--   done busy paused failed uncertain behind    as verdict.go has them
--   time (ms) entry holder (the lock's value) ttl (ms) told (this asker shall tell it) listed zone …
local m = meta()
local e = read(q.slot)
local held = redis.call('GET', LOCK) or ''
redis.call('PTTL', LOCK) -- for the answer: a right that lacks shows before the first write
local run = run_of(held)
local mine = string.sub(held, 1, 32) == q.run_id or (q.dry and run == '')
local fence = tonumber(redis.call('GET', FENCE) or '0')
local id = q.machine == '' and q.host or q.host .. ' ' .. q.machine
local fine, asked = pcall(redis.call, 'HGET', HOSTS, id)
asked = fine and asked and cjson.decode(asked) or {}

local answers = { run = 'ran', paused = 'paused', done = 'done', busy = 'busy', failed = 'failed', uncertain = 'uncertain' }
-- A merged slot is as the one that covers it; without that, which the ledger has then forgotten, it is done.
local into = e and e.state == 'merged' and read(e.into)
local said = into or e

local whys = { clock = 'clock', zone = 'zone', shape = 'shape', args = 'arguments', line = 'arguments',
  notdaily = 'not_daily', old = 'old' }

-- forced: by hand, or after a command that could not be started: a line that was corrected is taken.
local forced = q.rerun ~= '' or (e and (e.reopened or (e.reason == 'not_started' and e.attempt == 0)))

-- rollcall keeps what this host asked and was told. It never changes the verdict. The first question about a slot
-- decides its minute and its line: the second line of one name stays refused, however often it asks.
local function rollcall(verdict)
  if q.dry then return end
  local first = asked.slot == q.slot and not (forced and verdict == 'run') and asked or {}
  local minute = verdict ~= 'clock' and verdict ~= 'zone' and q.minute or '' -- theirs is not the line's
  if first.minute and first.minute ~= '' then minute = first.minute end
  local answer = answers[verdict] or (whys[verdict] and 'refused') or (q.overlap == 'skip' and 'skipped' or 'waiting')
  pcall(redis.call, 'HSET', HOSTS, id, cjson.encode({ asked = ms, slot = q.slot, answer = answer, why = whys[verdict],
    line = first.line or q.line, minute = minute, version = q.version }))
end

-- reply answers. A verdict without a run leaves no lease behind, except where a late copy of an older question
-- meets the living run of the same run ID.
local function reply(verdict, more)
  local own = e and e.run_id == q.run_id
  local alive = own and fence == tonumber(e.token) and (e.state == 'running' or (e.kept and q.try <= e.try))
  if verdict ~= 'run' and not alive and not q.dry then
    if mine then redis.call('DEL', LOCK) end
    if own and e.kept then
      e.kept = nil
      write(q.slot, e)
    end
  end
  local r = more or {}
  r.verdict, r.time, r.entry, r.holder, r.ttl = verdict, ms, said, held, redis.call('PTTL', LOCK)
  r.listed, r.zone, r.zone_host, r.zone_since = m.listed, m.zone, m.zone_host, m.zone_since
  r.paused, r.current, r.heard, r.asked = m.paused, m.current, tonumber(m.heard), asked.minute
  return cjson.encode(r)
end

local function answer(verdict, more)
  rollcall(verdict)
  return reply(verdict, more)
end

-- sweep drops hosts that have not asked for a month, once a day.
local function sweep()
  if ms - tonumber(m.swept or '0') < 86400000 then return end
  redis.call('HSET', META, 'swept', int(ms))
  local flat = redis.call('HGETALL', HOSTS)
  for k = 1, #flat, 2 do
    if ms - cjson.decode(flat[k + 1]).asked > 30 * 86400000 then redis.call('HDEL', HOSTS, flat[k]) end
  end
end

-- accounted is up to where every slot that was due has an entry, ms; before a job's first entry nothing is missed. Not
-- the newest entry: one that was skipped, or run by its date, says nothing of those before.
local function accounted()
  return tonumber(m.accounted or redis.call('ZRANGE', SLOTS, 0, 0, 'WITHSCORES')[2])
end

-- account moves that on to this slot. Whoever asks by a date has not looked.
local function account()
  if not q.dated then redis.call('HSET', META, 'accounted', int(math.max(accounted() or 0, q.begins))) end
end

-- history leaves an entry that is no verdict: such a slot runs when it is asked for again. What was missed stays so, also
-- when another run is in the way of catching up.
local function history(state)
  if q.dry or (e and (not note(e) or e.state == 'missed')) then return end
  if (accounted() or q.begins) >= q.previous then account() end
  rank(m.current)
  write(q.slot, { state = state, attempt = 0, host = q.host, began = ms, behind = state == 'skipped' and m.current or nil })
end

-- once marks an entry as told by this asker, so that one host of the fleet speaks and the others are silent.
local function once()
  local t = tag(q.run_id, q.try)
  if not e.told and not q.dry then
    e.told = t
    write(q.slot, e)
  end
  return { told = q.dry or e.told == t }
end

-- owed lists the missed and skipped slots before this one, newest first, but for those that this line has passed over.
local function owed()
  local names = {}
  if q.catch_up == 'none' then return names end
  for _, name in ipairs(redis.call('ZREVRANGEBYSCORE', SLOTS, '(' .. int(q.begins), '-inf', 'LIMIT', 0, 100)) do
    local other = read(name)
    if other and (other.state == 'missed' or other.state == 'skipped') and other.passed ~= q.shape then
      names[#names + 1] = name
    end
  end
  return names
end

-- gap is what must be seen to before this slot runs: slots that were due and may have no entry, and those that are owed.
local function gap()
  if q.caught or q.dated then return end
  local from, names = accounted(), owed()
  local missed = from and from < q.previous
  if missed or #names > 0 then
    return { accounted = missed and int(from) or nil, owed = #names > 0 and names or nil }
  end
end

-- begins is the beginning of a slot in the ledger, ms; one that is forgotten is older than any.
local function begins(name) return tonumber(redis.call('ZSCORE', SLOTS, name) or '0') end

-- merge makes this run cover the slots that it was asked to, as far as nobody has begun one since, besides those from
-- first on that it covers already. Returns the name of the first of all, or nil. Those that are passed over are marked, so
-- that it is done once and for all.
local function merge(first)
  for _, name in ipairs(q.covers or {}) do
    local other = read(name)
    if other and (other.state == 'missed' or other.state == 'skipped') then
      other.state, other.into = 'merged', q.slot
      write(name, other)
      if not first or begins(name) < begins(first) then first = name end
    end
  end
  for _, name in ipairs(q.passed or {}) do
    local other = read(name)
    if other and note(other) then
      other.passed = q.shape
      write(name, other)
    end
  end
  return first
end

-- earlier finds the slot that ran before this one, if its end is not as it should be and nobody has told it yet.
local function earlier()
  local before = m.current and m.current ~= q.slot and read(m.current)
  if before and (before.state == 'running' or before.reason == 'interrupted') and not before.noted then
    before.noted = true
    write(m.current, before)
    return m.current, before
  end
end

-- 1. The same question again, or a late copy of an old one.
local allowed = q.attempts + (e and e.extra or 0)
if e and e.reopened then allowed = math.max(allowed, e.attempt + 1) end -- whatever the line says now
if is(e, q.run_id, q.try) then
  if e.state ~= 'running' then return reply('ended') end
  if not mine or fence ~= tonumber(e.token) then return reply('lost') end -- somebody began since: this token is spent
  return reply('run', { token = e.token, attempt = e.attempt, left = math.max(0, allowed - e.attempt), first = e.first })
end
if e and (position(e, q.run_id, q.try) or (e.run_id == q.run_id and q.try < e.try)) then return reply('ended') end

-- 2. Hosts or lines disagree.
if math.abs(q.now - ms) > 3600000 then return answer('clock') end
-- A zone is the same by its name, or by its offsets in the year that the job's are of, if the asker still knows that year.
local known = q.offsets[m.zone_year or '']
local same = m.zone == q.zone and q.zone ~= 'Local'
if q.zone_from == 'default' and known and known ~= m.offsets and not same then return answer('zone') end
local met = overlap(m, q.slot, q.from, q.to, q.shape)
if met then return answer('shape', { other = met }) end
if e and e.args and q.args ~= '' and e.args ~= q.args and not forced then return answer('args') end
local before = asked.slot == q.slot and asked.line
  or (e and e.host == q.host and (e.machine or '') == q.machine and e.line)
if before and before ~= q.line and not forced then return answer('line') end

-- 3. What the ledger says.
if not e and m.low and q.begins <= tonumber(m.low) then
  return answer('old', { oldest = redis.call('ZRANGE', SLOTS, 0, 0)[1] })
end
local again = q.minute ~= '' and asked.slot == q.slot and asked.minute ~= '' and asked.minute ~= q.minute
if said and (said.state == 'done' or said.state == 'merged') and q.rerun == '' then return answer(again and 'notdaily' or 'done') end
local begun = said and (said.state == 'running' or said.kept)
if begun and run ~= '' and run == said.run_id and not mine then return answer(again and 'notdaily' or 'busy') end
local pause = m.paused and cjson.decode(m.paused)
if pause and not (pause['until'] and pause['until'] <= ms) then
  history('paused')
  return answer('paused')
end
local n = said and said.attempt or 0
if n > 0 and (n >= allowed or into) and q.rerun == '' then
  return answer(said.state == 'running' and 'uncertain' or 'failed', once())
end
n = e and e.attempt or 0

-- 4. Somebody else holds the job, or may still be running without a lease.
if not mine then
  if q.overlap == 'skip' then history('skipped') end
  return answer('behind', { other = m.current and read(m.current) })
end
local open = gap()
if open and not q.dry then return reply('gap', open) end
local left = math.max(0, allowed - n - 1)
if q.dry then
  return answer('run', { attempt = n + 1, left = left, first = e and e.first, accounted = open and open.accounted,
    owed = open and open.owed })
end

-- 5. Run.
local token = int(math.max(fence + 1, ms))
local new = { state = 'running', run_id = q.run_id, try = q.try, attempt = n + 1, token = token, host = q.host,
  pid = q.pid, user = q.user, began = ms, span = span(), line = q.line,
  extra = e and e.extra, stale = e and e.stale, first = e and e.first }
if q.machine ~= '' then new.machine = q.machine end
if q.args ~= '' then new.args = q.args end
if q.by_hand then new.by_hand = true end
if q.rerun ~= '' then new.rerun = q.rerun end
if e and e.state == 'done' then new.was = 'done' end -- and so it stays, if this attempt is not started
if e and e.reopened then new.reopening = true end -- likewise
if e and e.run_id then new.earlier = list(e, e.run_id, e.try, e.began, e.state ~= 'running') end
event('begin', 'attempt', int(n + 1), 'token', token, 'host', q.host .. ':' .. int(q.pid), 'user', q.user,
  'run_id', q.run_id, 'version', q.version, 'rerun', q.rerun)
if e and e.state == 'running' and not e.resolved then redis.call('HINCRBY', META, 'count_uncertain', 1) end
rank(q.slot)
account()
new.first = merge(new.first)
local earlier_slot, earlier_entry = earlier()
cover(m)
redis.call('SET', FENCE, token)
if q.zone_from == 'explicit' or (q.zone_from == 'default' and (same or not known)) then zone(m) end
if not q.dated or not m.attempts then line() end
redis.call('HSET', META, 'current', q.slot, 'heard', int(ms))
rollcall('run')
pcall(sweep)
write(q.slot, new)
return reply('run', { token = token, attempt = n + 1, left = left, first = new.first, earlier = earlier_slot,
  earlier_entry = earlier_entry })
