// A hub of the test's own and an empty cache.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "app/hub/pull.h"
#include "tests/app/hub/hub_server.h"
#include "tests/data/scratch.h"

namespace ft::test {

namespace fs = std::filesystem;

// Returns bytes that differ from place to place.
inline std::string some_bytes(std::size_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::string bytes(count, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

inline std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct HubPlace : testing::Test {
  HubPlace() {
    auto& files = server.repositories["models/org/tiny"].files;
    files["config.json"] = {"{}"};
    files["tokenizer.json"] = {"{\"a\": 1}"};
    files["model.safetensors"] = {some_bytes(300'000), true};
    files["pytorch_model.bin"] = {some_bytes(1000), true};
    files["original/consolidated.pth"] = {some_bytes(1000), true};
    access.cache = scratch.folder() / "hub";
    access.endpoint = server.endpoint();
    limits.pause = std::chrono::milliseconds(1);
  }

  ServedFile& served(const std::string& path) { return server.repositories["models/org/tiny"].files[path]; }
  hub::Pulled pull(const hub::Patterns& patterns = {}) {
    Screen::Options options;
    options.write = [this](const std::string& text) { shown += text; };
    Screen screen(options);
    return hub::pull(access, name, patterns, screen, limits);
  }
  // Returns the message of a pull that fails. Expects that nothing was published, and no token was shown.
  std::string refused(Exit code, const hub::Patterns& patterns = {}) {
    const std::string message = error_of(code, [&] { pull(patterns); });
    EXPECT_FALSE(fs::exists(repository() / "refs")) << message;
    if (!access.token.empty()) {
      EXPECT_EQ((message + shown).find(access.token), std::string::npos);
    }
    return message;
  }
  fs::path repository() const { return hub_repository(access.cache, name); }
  fs::path blob(const std::string& path) { return repository() / "blobs" / served(path).hash(); }
  fs::path part(const std::string& path) { return blob(path).string() + ".incomplete"; }
  void write_part(const std::string& path, const std::string& bytes) {
    fs::create_directories(repository() / "blobs");
    std::ofstream(part(path), std::ios::binary) << bytes;
  }

  HubServer server;
  Scratch scratch;
  hub::Access access;
  HubName name{HubKind::model, "org/tiny"};
  hub::TransferLimits limits;
  std::string shown;  // on the screen
};

}  // namespace ft::test
