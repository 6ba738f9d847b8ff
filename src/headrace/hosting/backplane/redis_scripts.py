"""What changes in Redis as a whole: Lua scripts. Every time in them is Redis's own, so clocks of machines may differ.

Keys of what processes tell each other share one hash tag, and so one node of a cluster:

- ``{P}:state`` hash: ``epoch`` and ``born`` (ms) of what is kept, and the number of the last message of each stream;
- ``{P}:workers`` sorted set: name -> end of its lease (ms); ``{P}:dead``: name -> until when it is remembered as dead;
- ``{P}:all`` stream, and ``{P}:in:NAME``, one for each process: messages, whose ids are their numbers without holes.

A message is the field ``m``; ``x`` names a process that died, ``g`` one that could not tell everything.
"""

from __future__ import annotations

import hashlib

__all__ = ("ALIVE", "APPEND", "BURY", "COUNT", "JOIN", "LEAVE", "PART", "PUT", "SEND", "Script")


class Script:
    """One script with its SHA-1, by which Redis knows it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


_NOW = """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
"""

_ADD = """
local function add(stream, name, most, field, value)
  local n = redis.call('HINCRBY', KEYS[1], name, 1)
  local done = redis.pcall('XADD', stream, 'MAXLEN', '~', most, n .. '-0', field, value)
  if type(done) == 'table' and done.err then
    -- Somebody else has written there: what is left of it is no use to anybody.
    if not string.find(done.err, 'equal or smaller') and not string.find(done.err, 'WRONGTYPE') then
      error(done.err)
    end
    redis.call('DEL', stream)
    redis.call('XADD', stream, n .. '-0', field, value)
  end
end
"""

_BURIAL = """
local function bury(name, all, most, inbox)
  redis.call('ZREM', KEYS[2], name)
  redis.call('ZADD', KEYS[3], now + 3600000, name)
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
  redis.call('HDEL', KEYS[1], 'in:' .. name)
  redis.call('DEL', inbox .. name)
  add(all, 'all', most, 'x', name)
end
"""

JOIN = Script(
    _NOW
    + _ADD
    + _BURIAL
    + """
-- Whether somebody else has written into a stream: it is of another kind, or ahead of its number.
local function spoilt(stream, name)
  local found = redis.pcall('XREVRANGE', stream, '+', '-', 'COUNT', 1)
  if found.err then return string.find(found.err, 'WRONGTYPE') end
  return found[1] and (not string.find(found[1][1], '-0$')
    or tonumber(string.sub(found[1][1], 1, -3)) > tonumber(redis.call('HGET', KEYS[1], name) or 0))
end
-- KEYS state workers dead all inbox; ARGV me lease token most inbox-prefix inbox-ttl read
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if not epoch then
  epoch = ARGV[3]
  redis.call('DEL', KEYS[4])
  redis.call('HSET', KEYS[1], 'epoch', epoch, 'born', now)
end
local revived = redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[1])
redis.call('HSETNX', KEYS[1], 'in:' .. ARGV[1], 0)
if spoilt(KEYS[5], 'in:' .. ARGV[1]) then redis.call('DEL', KEYS[5]) end
if spoilt(KEYS[4], 'all') then
  redis.call('DEL', KEYS[4])
  add(KEYS[4], 'all', ARGV[4], 'g', '')
end
redis.pcall('XTRIM', KEYS[5], 'MINID', (ARGV[7] + 1) .. '-0')
redis.call('PEXPIRE', KEYS[5], ARGV[6])
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)) do
  bury(name, KEYS[4], ARGV[4], ARGV[5])
end
return {epoch, redis.call('HGET', KEYS[1], 'all') or '0', redis.call('HGET', KEYS[1], 'in:' .. ARGV[1]), revived}
"""
)
"""Takes or renews a lease, and buries those whose lease is over: epoch, number of the
last message to all and of the last one to this process, revived."""

LEAVE = Script(
    _NOW
    + """
-- KEYS state workers dead inbox; ARGV me
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZADD', KEYS[3], now + 3600000, ARGV[1])
redis.call('HDEL', KEYS[1], 'in:' .. ARGV[1])
redis.call('DEL', KEYS[4])
return 1
"""
)

BURY = Script(
    _NOW
    + _ADD
    + _BURIAL
    + """
-- KEYS state workers dead all; ARGV name most inbox-prefix
if redis.call('ZSCORE', KEYS[2], ARGV[1]) then bury(ARGV[1], KEYS[4], ARGV[2], ARGV[3]) end
return 1
"""
)

ALIVE = Script(
    _NOW
    + """
-- KEYS state workers dead; ARGV name lease
if redis.call('ZSCORE', KEYS[3], ARGV[1]) then return 0 end
local till = redis.call('ZSCORE', KEYS[2], ARGV[1])
if till then return (tonumber(till) > now) and 1 or 0 end
-- What came back empty a moment ago does not know yet who lives.
local born = redis.call('HGET', KEYS[1], 'born')
return (not born or now - born < tonumber(ARGV[2])) and 1 or 0
"""
)

SEND = Script(
    _NOW
    + _ADD
    + """
-- KEYS state workers dead all
-- ARGV inbox-prefix most-all most-inbox inbox-ttl lease, then name and message each ('': to all)
local born = redis.call('HGET', KEYS[1], 'born')
local young = not born or now - born < tonumber(ARGV[5])
for i = 6, #ARGV, 2 do
  local name = ARGV[i]
  if name == '' then
    add(KEYS[4], 'all', ARGV[2], 'm', ARGV[i + 1])
  elseif name == '!' then
    add(KEYS[4], 'all', ARGV[2], 'g', ARGV[i + 1])
  elseif redis.call('ZSCORE', KEYS[2], name) or (young and not redis.call('ZSCORE', KEYS[3], name)) then
    -- Names may come from clients: nothing is kept for one that nobody has.
    local inbox = ARGV[1] .. name
    add(inbox, 'in:' .. name, ARGV[3], 'm', ARGV[i + 1])
    redis.call('PEXPIRE', inbox, ARGV[4])
  end
end
return 1
"""
)

APPEND = Script(
    """
-- KEYS log; ARGV most ttl, then number and event each
for i = 3, #ARGV, 2 do
  local done = redis.pcall('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], ARGV[i] .. '-0', 'e', ARGV[i + 1])
  if type(done) == 'table' and done.err and not string.find(done.err, 'equal or smaller') then
    return redis.error_reply(done.err)
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""
)

PUT = Script(
    """
-- KEYS record; ARGV value ms new, then name and value of each part
if ARGV[3] == '1' and redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], '', ARGV[1]) -- first, as the one that is refused where memory is short
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], '', ARGV[1])
for i = 4, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""
)

PART = Script(
    """
-- KEYS record; ARGV name, and the value if there is one
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if ARGV[2] then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) else redis.call('HDEL', KEYS[1], ARGV[1]) end
return 1
"""
)

COUNT = Script(
    _NOW
    + """
-- KEYS group; ARGV member, and for how long (0: not any more)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if ARGV[1] then
  if tonumber(ARGV[2]) > 0 then
    redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
    if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  else
    redis.call('ZREM', KEYS[1], ARGV[1])
  end
end
return redis.call('ZCARD', KEYS[1])
"""
)
