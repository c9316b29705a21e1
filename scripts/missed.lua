-- missed.lua writes slots that were due and that nobody asked for, as missed: history only, wherever there is no entry;
-- what was due while the job was paused, as paused. What the ledger has forgotten may have run.
-- KEYS  as in entry.lua
-- ARGV  1 question (JSON):
--   slots     {name, beginning, from, to (ms)}, oldest first; the time of another line's slot is not missed
--   slot begins previous shape host   the slot that is to run next, and the one before; its line; who writes
--   dry       true: say what would be written, write nothing
-- Returns JSON: {written, open: names, oldest first}: whoever writes them tells them; open are those that are missed or
--   skipped now, whoever wrote them
local written, open, m = {}, {}, meta()
local low = tonumber(m.low or '-1')
local pause = m.paused and cjson.decode(m.paused) or {}

-- paused says whether a slot that begins then was due during the newest pause.
local function paused(begins)
  return pause.since and pause.since <= begins and not (pause['until'] and pause['until'] <= begins)
end

for _, s in ipairs(q.slots) do
  local e = read(s[1])
  if not e and s[2] > low and not overlap(m, s[1], s[3], s[4], q.shape) then
    e = { state = paused(s[2]) and 'paused' or 'missed', attempt = 0, host = q.host, began = ms }
    if not q.dry then
      redis.call('ZADD', SLOTS, int(s[2]), s[1])
      write(s[1], e)
    end
    if e.state == 'missed' then written[#written + 1] = s[1] end
  end
  if e and (e.state == 'missed' or e.state == 'skipped') then open[#open + 1] = s[1] end
end
if not q.dry then redis.call('HSET', META, 'accounted', int(math.max(tonumber(m.accounted or '0'), q.previous))) end
return cjson.encode({ written = #written > 0 and written or nil, open = #open > 0 and open or nil })
