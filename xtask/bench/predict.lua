-- One node after the other, in an order that no cache likes.
dofile("report.lua")
local n = 0
wrk.headers["content-type"] = "application/json"
request = function()
  n = n + 1
  return wrk.format("POST", "/v1/graphsage/predict", nil, '{"nodes": [' .. (1 + n * 7919 % 20000) .. ']}')
end
