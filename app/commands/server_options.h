// Options of the commands that serve pages over HTTP.
#pragma once
#include "app/commands/command.h"
#include "app/http/http.h"

namespace ft::commands {

struct ServerOptions {
  std::string& host;
  int& port;
  Names& allowed_origins;
  std::string& key_file;
  CertificateFiles& https;
};
// Adds --host, --port, --allow-origin, --api-key-file, --tls-cert and --tls-key.
void add_server_options(CLI::App& app, const ServerOptions& options);

}  // namespace ft::commands
