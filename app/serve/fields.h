// Reads the fields of a request. Errors name the field. A null field counts as left out.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/files/json.h"

namespace ft {

// All members throw ApiError if a field is wrong.
class Fields {
 public:
  explicit Fields(const Json& j) : json_(j) {}

  const Json* find(const char* key);
  [[noreturn]] static void refuse(const char* key, const std::string& why);
  std::optional<double> number(const char* key, double least, double most);
  std::optional<std::int64_t> integer(const char* key, std::int64_t least, std::int64_t most);
  bool flag(const char* key, bool usual = false);
  // Reads a field that ft does not support: allows only values that change nothing.
  void neutral(const char* key, const std::vector<Json>& values, const std::string& instead);
  void refuse_unknown() const;

 private:
  const Json& json_;
  std::set<std::string> known_;
};

}  // namespace ft
