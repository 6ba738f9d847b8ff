"""The changes of the task store in Redis, each of them one Lua script: whole, or not made at all.

``KEYS[1]`` is the name that all keys begin with; it holds a hash tag, so that a cluster keeps them on one node:

- ``:t:ID`` one task, a hash (``b`` what never changes, ``s`` its state, ``p`` its result, ``w`` its process, ``e`` when
  its time is over, ``fw`` who follows it);
- ``:exp`` all ids by the end of their time, ``:own:OWNER`` those of one owner by number, ``:meta`` what must be
  known of a task whose hash is gone;
- ``:run:WORKER`` the unfinished ones of a process, ``:workers`` the processes that have some;
- ``:sig:WORKER`` signals for a process by number, ``:seq`` the last number, ``:bytes`` the size of all results.

One clock judges, Redis's own. Keys end by themselves some time after the last task that needs them, for the case
that no server is left to sweep.
"""

from __future__ import annotations

import hashlib
from typing import Final

__all__ = (
    "CHANGE", "CREATE", "DELETE", "FAIL", "FOLLOW", "GET", "MEMBERS", "PAGE", "POST", "SWEEP", "TAKE", "UNFOLLOW",
    "Script",
)  # fmt: skip

_COMMON = """
local P = KEYS[1]
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local OPEN = { working = true, input_required = true }
local LATER = 3600

local function task(id) return P .. ':t:' .. id end

local function row(id, payload)
  local found = redis.call('HMGET', task(id), 'b', 's', 'm', 'u', 'i', 'f', 'e')
  if not found[1] then return nil end
  local expires = found[7]
  if expires ~= '' and tonumber(expires) <= now then return nil end
  found[7] = payload and redis.call('HGET', task(id), 'p') or false
  return found
end

local function ended(worker, id)
  local key = P .. ':run:' .. worker
  if redis.call('SREM', key, id) == 1 and redis.call('SCARD', key) == 0 then
    redis.call('SREM', P .. ':workers', worker)
  end
end

local function grown(id, more)
  if more <= 0 then return end
  local owner, size, worker = string.match(redis.call('HGET', P .. ':meta', id), '^(%x*):(%d+):(.*)$')
  redis.call('HSET', P .. ':meta', id, owner .. ':' .. (tonumber(size) + more) .. ':' .. worker)
  redis.call('INCRBY', P .. ':bytes', more)
end

local function drop(id)
  local meta = redis.call('HGET', P .. ':meta', id)
  if not meta then return end
  local owner, size, worker = string.match(meta, '^(%x*):(%d+):(.*)$')
  redis.call('DEL', task(id))
  redis.call('HDEL', P .. ':meta', id)
  redis.call('ZREM', P .. ':exp', id)
  redis.call('ZREM', P .. ':own:' .. owner, id)
  if size ~= '0' then redis.call('DECRBY', P .. ':bytes', size) end
  ended(worker, id)
end

local function expire(most)
  local ids = redis.call('ZRANGEBYSCORE', P .. ':exp', '-inf', now, 'LIMIT', 0, most)
  for _, id in ipairs(ids) do drop(id) end
  return ids
end

local function number()
  local next = redis.call('INCR', P .. ':seq')
  if next == 1 then  -- never one that was given before all was lost
    next = math.floor(now * 1000)
    redis.call('SET', P .. ':seq', next)
  end
  return next
end

local function make_room(full)
  while full() and #expire(500) == 500 do end
  return not full()
end
"""


class Script:
    """One script: its text, and the name under which Redis knows it once it has seen it."""

    __slots__ = ("sha", "text")

    def __init__(self, text: str) -> None:
        self.text = _COMMON + text
        self.sha = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


CREATE: Final = Script("""
local id, owner, worker, expires, most, each = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
if redis.call('EXISTS', task(id)) == 1 then return 'ok' end
local owned = P .. ':own:' .. owner
if not make_room(function() return redis.call('ZCARD', P .. ':exp') >= most end) then return 'most' end
if redis.call('ZCARD', owned) >= each then return 'each' end
redis.call('HSET', task(id), 'w', worker, 'e', expires, unpack(ARGV, 7))
redis.call('HSET', P .. ':meta', id, owner .. ':0:' .. worker)
redis.call('ZADD', P .. ':exp', expires == '' and '+inf' or expires, id)
redis.call('ZADD', owned, number(), id)
redis.call('SADD', P .. ':run:' .. worker, id)
redis.call('SADD', P .. ':workers', worker)
if not OPEN[redis.call('HGET', task(id), 's')] then ended(worker, id) end
redis.call('INCRBY', P .. ':bytes', 0)
grown(id, redis.call('HSTRLEN', task(id), 'p'))
if expires ~= '' then redis.call('EXPIREAT', task(id), math.ceil(tonumber(expires)) + LATER) end
local last = redis.call('ZREVRANGE', P .. ':exp', 0, 0, 'WITHSCORES')[2]
for _, key in ipairs({ ':exp', ':meta', ':bytes', ':seq', ':workers', ':own:' .. owner, ':run:' .. worker }) do
  if last == 'inf' then
    redis.call('PERSIST', P .. key)
  else
    redis.call('EXPIREAT', P .. key, math.ceil(tonumber(last)) + LATER)
  end
end
return 'ok'
""")
"""Id, owner, worker, expiry or nothing, two bounds, fields -> ``ok``, or the bound that is reached."""

GET: Final = Script("return row(ARGV[1], true)")
"""Id -> row."""

CHANGE: Final = Script("""
local id, most, size = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local known = redis.call('HMGET', task(id), 's', 'w', 'fw')
if not known[1] or not OPEN[known[1]] then return nil end
if size > 0 then
  local function full() return tonumber(redis.call('GET', P .. ':bytes') or '0') + size > most end
  if not make_room(full) then return 'full' end
  if redis.call('EXISTS', task(id)) == 0 then return nil end
end
for at = 4, #ARGV, 2 do
  if ARGV[at + 1] == '' then
    redis.call('HDEL', task(id), ARGV[at])
  else
    redis.call('HSET', task(id), ARGV[at], ARGV[at + 1])
  end
end
grown(id, size)
if not OPEN[redis.call('HGET', task(id), 's')] then ended(known[2], id) end
local found = redis.call('HMGET', task(id), 'b', 's', 'm', 'u', 'i', 'f')
found[7] = false
found[8] = known[3] or ''
return found
""")
"""Id, bound and size of the payload, fields (empty: none any more) -> row with followers, ``full``, or nothing."""

DELETE: Final = Script("drop(ARGV[1])")

SWEEP: Final = Script("return expire(tonumber(ARGV[1]))")
"""How many at most -> ids of those that are deleted."""

MEMBERS: Final = Script("return redis.call('SMEMBERS', P .. ARGV[1])")
"""Rest of the name of a set -> its members."""

PAGE: Final = Script("""
local owned, at, count = P .. ':own:' .. ARGV[1], ARGV[2], tonumber(ARGV[3])
local found = {}
while #found <= count do
  local ids = redis.call('ZRANGEBYSCORE', owned, '(' .. at, '+inf', 'WITHSCORES', 'LIMIT', 0, count + 1)
  if #ids == 0 then break end
  for i = 1, #ids, 2 do
    at = ids[i + 1]
    local seen = #found <= count and row(ids[i], false)
    if seen then
      seen[8] = at
      found[#found + 1] = seen
    end
  end
end
return found
""")
"""Owner, position, count -> up to one row more than that, each with its position."""

FAIL: Final = Script("""
local worker, updated, message, payload = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ids = redis.call('SPOP', P .. ':run:' .. worker, 200)
local told = {}
for _, id in ipairs(ids) do
  local known = redis.call('HMGET', task(id), 's', 'fw')
  if known[1] and OPEN[known[1]] then
    redis.call('HSET', task(id), 's', 'failed', 'm', message, 'u', updated, 'i', '{}', 'p', payload)
    grown(id, #payload)
    told[#told + 1] = { id, known[2] or '' }
  end
end
local left = redis.call('SCARD', P .. ':run:' .. worker)
if left == 0 then
  redis.call('SREM', P .. ':workers', worker)
  redis.call('DEL', P .. ':sig:' .. worker)
end
return { left, told }
""")
"""Worker, stamp, message, error -> how many are left, and ids and followers of some that are failed now."""

FOLLOW: Final = Script("""
local found = row(ARGV[1], true)
if found then
  local list = redis.call('HGET', task(ARGV[1]), 'fw') or ''
  if not string.find(',' .. list, ',' .. ARGV[2] .. ',', 1, true) then
    list = list .. ARGV[2] .. ','
    if #list > tonumber(ARGV[3]) then list = string.match(list, ',(.*)', #list - tonumber(ARGV[3])) end
    redis.call('HSET', task(ARGV[1]), 'fw', list)
  end
end
return found
""")
"""Id, worker, bytes of names that are kept -> row; the worker stands among the followers then."""

UNFOLLOW: Final = Script("""
local list = redis.call('HGET', task(ARGV[1]), 'fw')
if list then
  local from, to = string.find(',' .. list, ',' .. ARGV[2] .. ',', 1, true)
  if from then redis.call('HSET', task(ARGV[1]), 'fw', string.sub(list, 1, from - 1) .. string.sub(list, to)) end
end
""")
"""Id, worker."""

POST: Final = Script("""
local worker = redis.call('HGET', task(ARGV[1]), 'w')
if not worker then return nil end
local key = P .. ':sig:' .. worker
if redis.call('ZCARD', key) >= tonumber(ARGV[3]) then return 'full' end
local next = number()
redis.call('ZADD', key, next, string.format('%d', next) .. ':' .. ARGV[2])
redis.call('EXPIRE', key, LATER)
return { worker }
""")
"""Id, signal, how many may wait -> the worker that it waits for, ``full``, or nothing."""

TAKE: Final = Script("""
local key = P .. ':sig:' .. ARGV[1]
redis.call('ZREMRANGEBYSCORE', key, '-inf', ARGV[2])
return redis.call('ZRANGE', key, 0, 199)
""")
"""Worker, number of the last signal that it has -> those behind it, each with its number in front."""
