-- A decision on one user after the other.
dofile("report.lua")
local n = 0
wrk.headers["content-type"] = "application/json"
request = function()
  n = n + 1
  return wrk.format("POST", "/v1/score", nil, '{"user_id": ' .. (1 + n * 7919 % 20000) .. ', "features": {"amount": 120}}')
end
