// libFuzzer: any bytes as a checkpoint's manifest.json, with the right hash if they are an object of JSON.
#include <nlohmann/json.hpp>

#include "engine/files/checkpoint_folder.h"
#include "engine/files/hash.h"
#include "tests/fuzz/input.h"

namespace {

std::string with_hash(std::string_view text) {
  ft::Json manifest = ft::Json::parse(text, nullptr, false);
  if (!manifest.is_object()) return std::string(text);
  manifest.erase("sha256");
  try {
    manifest["sha256"] = ft::sha256(ft::json_text(manifest));
    return ft::json_text(manifest) + "\n";
  } catch (const std::exception&) {  // text that is not UTF-8
    return std::string(text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ft::fuzz::MemoryFolder folder;
  folder.clear();
  folder.write("a", "content");
  folder.write("manifest.json", with_hash(ft::fuzz::text_of(data, size)));
  ft::fuzz::read_within(size, [&] { (void)ft::open_checkpoint(folder.path()); });
  ft::fuzz::read_within(size, [&] { (void)ft::read_checkpoint(folder.path()); });
  return 0;
}
