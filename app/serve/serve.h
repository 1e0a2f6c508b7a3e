// ft serve: answers over HTTP with OpenAI's API, so that existing clients can use it.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "app/answers/args.h"
#include "app/http/http.h"
#include "engine/core/error.h"

namespace ft {

inline constexpr std::chrono::seconds kGrace{30};  // time for the current requests after a signal

struct ServeArgs : AnswererArgs {
  std::vector<std::string> adapters;  // NAME=DIR
  std::string name;                   // the model's name in requests
  std::string host = "127.0.0.1";
  int port = 8000;
  std::vector<std::string> allowed_origins;  // pages in browsers that may ask, besides the chat page
  std::string key_file;                      // empty: no key
  CertificateFiles https;
  std::int64_t max_waiting = 64;   // waiting requests
  std::string max_reply;           // bytes of a reply with embeddings; empty: the default
  std::int64_t max_loras = 0;      // adapters that requests may load; 0: none
  std::int64_t max_lora_rank = 0;  // of these; 0: 16
  bool sandbox = false;            // confine the process: app/serve/sandbox.h
};
Exit serve(const ServeArgs&);

// Returns the default name of a model in requests: the last part of a path, or a complete hub id.
std::string name_of_model(const std::string& as_written);

}  // namespace ft
