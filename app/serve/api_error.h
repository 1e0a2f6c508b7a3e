// A client's mistake in the form of OpenAI's API: a status, and {"error": {message, type, param, code}}.
#pragma once
#include <stdexcept>
#include <string>

namespace ft {

struct ApiError : std::runtime_error {
  ApiError(int http_status, const std::string& message, std::string which = "", std::string what_code = "")
      : std::runtime_error(message),
        status(http_status),
        param(std::move(which)),
        code(std::move(what_code)) {}
  int status;
  std::string param, code;  // "": null in the reply
};

}  // namespace ft
