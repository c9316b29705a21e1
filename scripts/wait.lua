-- wait.lua says how a slot stands for whoever waits for its being done. It writes nothing.
-- KEYS  as in entry.lua
-- ARGV  1 question (JSON): slot; begins (ms)
-- Returns JSON: verdict; time (ms), entry (of the slot, or of the one that covers it), ttl (ms)
--   done     it is
--   running  its holder is alive, or keeps the lease for another attempt
--   failed uncertain old   it can no longer become done by itself; oldest, of old
--   open     anything else
local m = meta()
local e = read(q.slot)
local into = e and e.state == 'merged' and read(e.into)
local said = into or e
local run = run_of(redis.call('GET', LOCK) or '')

local function reply(verdict)
  return cjson.encode({ verdict = verdict, time = ms, entry = said, ttl = redis.call('PTTL', LOCK),
    oldest = verdict == 'old' and redis.call('ZRANGE', SLOTS, 0, 0)[1] or nil })
end

if not said then return reply(m.low and q.begins <= tonumber(m.low) and 'old' or 'open') end
if said.state == 'done' or said.state == 'merged' then return reply('done') end
if run ~= '' and run == said.run_id then return reply('running') end
if said.attempt > 0 and said.attempt >= tonumber(m.attempts or '1') + (said.extra or 0) and not said.reopened then
  return reply(said.state == 'running' and 'uncertain' or 'failed')
end
return reply('open')
