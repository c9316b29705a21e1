-- missed.lua writes slots that were due and that nobody asked for, as missed: history only, wherever there is no entry.
-- KEYS  as in entry.lua
-- ARGV  1 question (JSON):
--   slots     {name, beginning (ms)}, oldest first
--   slot begins keep host   the slot that is to run next; slots to keep; who writes
-- Returns JSON: {written = names, oldest first}: whoever writes them tells them
local written = {}
for _, s in ipairs(q.slots) do
  if redis.call('HEXISTS', LEDGER, s[1]) == 0 then
    redis.call('ZADD', SLOTS, int(s[2]), s[1])
    write(s[1], { state = 'missed', attempt = 0, host = q.host, began = ms })
    written[#written + 1] = s[1]
  end
end
return cjson.encode({ written = #written > 0 and written or nil })
