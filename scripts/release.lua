-- release.lua is one step: ours (finish), then redislock's release. An error of ours ends the script: the lease stays.
-- KEYS  1 lock, then the others of ours    ARGV  redislock's; last, the question of ours
-- Returns {redislock's answer, ours}
local function lease(KEYS, ARGV)
--[[lease]]
end
local function ours(KEYS, ARGV)
--[[ours]]
end

local question = table.remove(ARGV)
local answer = ours(KEYS, { question })
return { lease({ KEYS[1] }, ARGV), answer }
