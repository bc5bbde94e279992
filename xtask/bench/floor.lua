-- The floor: a page that does nothing.
dofile("report.lua")
request = function() return wrk.format("GET", "/livez") end
