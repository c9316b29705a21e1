-- rights.lua finds out which commands the user who asks may not use. It calls none of them.
-- KEYS  none
-- ARGV  1 commands (JSON): a list of lists, each a command's name and its arguments
-- Returns the names of those that are refused; nil where Redis cannot tell (before version 7).
if not redis.acl_check_cmd then return false end
local refused = {}
for _, words in ipairs(cjson.decode(ARGV[1])) do
  local known, may = pcall(redis.acl_check_cmd, unpack(words))
  if known and not may then refused[#refused + 1] = words[1] end
end
return refused
