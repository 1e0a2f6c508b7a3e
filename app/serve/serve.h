// ft serve: answers over HTTP, in the words of OpenAI's API, for the tools that people have.
#pragma once
#include <string>
#include <vector>

#include "app/answers/args.h"
#include "engine/core/error.h"

namespace ft {

struct ServeArgs : AnswererArgs {
  std::vector<std::string> adapters;  // NAME=DIR
  std::string name;                   // of the model in requests
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string key_file;           // empty: no key
  std::int64_t max_waiting = 64;  // requests
};
Exit serve(const ServeArgs&);

// What a model is called in requests where nobody says: the last part of a path; an id on the hub whole.
std::string name_of_model(const std::string& as_written);

}  // namespace ft
