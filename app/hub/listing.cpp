#include "app/hub/listing.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/files/file.h"
#include "engine/files/json.h"

namespace ft::hub {
namespace {

constexpr std::size_t kMostFiles = 1'000'000;

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// Reads one of the `siblings`.
RemoteFile read_file_entry(const JsonObject& entry) {
  RemoteFile file{entry.text("rfilename")};
  file.size = entry.integer_or("size", -1, -1, kMostBytes);
  file.hash = entry.text_or("blobId", "");
  if (entry.has("lfs")) {
    const JsonObject large = entry.object("lfs");
    file.size = large.integer("size", 0, kMostBytes);
    file.hash = large.text("sha256");
    if (!is_sha256(file.hash)) entry.refuse("lfs", "an object with a SHA-256");
  } else if (!file.hash.empty() && !is_sha1(file.hash)) {
    entry.refuse("blobId", "40 hexadecimal digits");
  }
  return file;
}

// Throws UserError (input) if a name leaves the folder, comes twice, or is also a folder.
void check_names(const std::vector<RemoteFile>& files, const std::string& source) {
  std::set<std::string_view> names;
  for (const RemoteFile& file : files) {
    require_inside(file.path, source);
    if (!names.insert(file.path).second)
      throw UserError(Exit::input, str(source, ": lists ", printable(file.path), " twice"));
  }
  for (const RemoteFile& file : files) {
    const std::string folder = file.path + "/";
    if (const auto next = names.lower_bound(folder); next != names.end() && next->starts_with(folder))
      throw UserError(Exit::input,
                      str(source, ": lists ", printable(file.path), " as a file and as a folder"));
  }
}

}  // namespace

bool is_sha1(std::string_view hash) { return is_hex(hash, 40); }
bool is_sha256(std::string_view hash) { return is_hex(hash, 64); }

std::string name_of_etag(std::string_view field) {
  constexpr std::size_t kLongest = 128;
  if (field.starts_with("W/")) field.remove_prefix(2);
  if (field.size() >= 2 && field.front() == '"' && field.back() == '"')
    field = field.substr(1, field.size() - 2);
  const bool named = !field.empty() && field.size() <= kLongest && field.front() != '.' &&
                     std::all_of(field.begin(), field.end(),
                                 [](char c) {
                                   return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                          (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
                                 }) &&
                     !field.ends_with(".incomplete");
  return named ? std::string(field) : "";
}

Listing parse_listing(std::string_view text, const std::string& source) {
  JsonRules rules;
  rules.max_bytes = kMostListing;
  rules.unique_keys = false;
  const JsonObject json = JsonObject::parse(text, {source}, rules);
  Listing listing{json.text("sha"), {}};
  if (!is_sha1(listing.commit)) json.refuse("sha", "a commit of 40 hexadecimal digits");
  if (json.is_array("siblings") && json.json().at("siblings").size() > kMostFiles)
    json.refuse("siblings", "a list of at most a million files");
  for (const JsonObject& entry : json.objects("siblings")) listing.files.push_back(read_file_entry(entry));
  check_names(listing.files, source);
  return listing;
}

}  // namespace ft::hub
