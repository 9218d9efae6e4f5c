-- Opens main.troy as a user does, and writes what the editor has to found.json.
local patience = tonumber(vim.env.PATIENCE) * 1000
local found = {}

local function until_there(what)
  assert(vim.wait(patience, what, 20), "it did not come")
end

local function ask(method, params)
  local answers = assert(vim.lsp.buf_request_sync(0, method, params, patience))
  for _, answer in pairs(answers) do
    return answer.result
  end
end

local function at(line, column)
  vim.api.nvim_win_set_cursor(0, { line, column })
  return vim.lsp.util.make_position_params(0, "utf-16")
end

local ok, problem = pcall(function()
  vim.cmd("edit main.troy")
  until_there(function() return #vim.diagnostic.get(0) > 0 end)
  found.mistakes = vim.tbl_map(function(one) return { one.lnum + 1, one.message } end, vim.diagnostic.get(0))
  found.hover = ask("textDocument/hover", at(3, 30)).contents
  local answer = ask("textDocument/completion", at(3, 29))
  found.completion = vim.tbl_map(function(one) return one.label end, answer.items or answer)
  vim.api.nvim_buf_set_lines(0, 7, 8, true, {}) -- the line with the mistake
  until_there(function() return #vim.diagnostic.get(0, { severity = vim.diagnostic.severity.ERROR }) == 0 end)
  local edits = ask("textDocument/formatting", { textDocument = vim.lsp.util.make_text_document_params(0), options = { tabSize = 2, insertSpaces = true } })
  vim.lsp.util.apply_text_edits(edits, 0, "utf-16")
  found.formatted = vim.api.nvim_buf_get_lines(0, 0, -1, true)
end)
found.problem = ok and "" or tostring(problem)
local file = assert(io.open("found.json", "w"))
file:write(vim.json.encode(found))
file:close()
vim.cmd("qall!")
