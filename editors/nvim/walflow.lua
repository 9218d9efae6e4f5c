-- walflow's language server in Neovim, 0.7 and newer: copy this file to ~/.config/nvim/plugin/walflow.lua
-- From 0.11 on, `vim.lsp.config` and `vim.lsp.enable` do the same in two lines: docs/howto/editor.md.

local extensions = { troy = "troy", trickle = "troy", tremor = "troy" }
local group = vim.api.nvim_create_augroup("walflow", {})

for extension, filetype in pairs(extensions) do
  vim.api.nvim_create_autocmd({ "BufRead", "BufNewFile" }, {
    group = group,
    pattern = "*." .. extension,
    callback = function(opened)
      vim.bo[opened.buf].filetype = filetype
      vim.bo[opened.buf].commentstring = "# %s"
      vim.bo[opened.buf].shiftwidth = 2
      vim.bo[opened.buf].expandtab = true
    end,
  })
end

local running -- one server for all flows of this editor

vim.api.nvim_create_autocmd("FileType", {
  group = group,
  pattern = "troy",
  callback = function(opened)
    if not running or not vim.lsp.get_client_by_id(running) then
      running = vim.lsp.start_client({
        name = "walflow",
        cmd = vim.g.walflow_command or { "walflow", "lsp" },
        root_dir = vim.fn.getcwd(),
      })
    end
    if running then
      vim.lsp.buf_attach_client(opened.buf, running)
      vim.bo[opened.buf].omnifunc = "v:lua.vim.lsp.omnifunc" -- completion with CTRL-X CTRL-O
    end
  end,
})
