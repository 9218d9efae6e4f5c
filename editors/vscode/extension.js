// Starts `walflow lsp` for flow files. Without the package of the client the extension still colours.
"use strict";

const vscode = require("vscode");

let client;

async function activate() {
  let languageclient;
  try {
    languageclient = require("vscode-languageclient/node");
  } catch {
    return; // `npm install` was not run in this folder: see README.md
  }
  const command = vscode.workspace.getConfiguration("walflow").get("command", "walflow");
  client = new languageclient.LanguageClient(
    "walflow",
    "walflow",
    { command, args: ["lsp"] },
    { documentSelector: [{ scheme: "file", language: "troy" }] },
  );
  await client.start();
}

async function deactivate() {
  await client?.stop();
}

module.exports = { activate, deactivate };
