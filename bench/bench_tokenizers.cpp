// Encoding on one thread: bench_tokenizers TEXTS.jsonl TOKENIZER [TOKENIZER ...]. Every text value of the
// rows is encoded separately, as prompts and answers are. Prints MB of text per second and the number of
// tokens. bench/tokenizers compares it with the tokenizers library of Hugging Face.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "engine/core/error.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: bench_tokenizers TEXTS.jsonl TOKENIZER [TOKENIZER ...]\n");
    return 2;
  }
  std::vector<std::string> texts;
  double megabytes = 0;
  std::ifstream in(argv[1]);
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json row = nlohmann::json::parse(line);
    for (const auto& [_, value] : row.items())
      if (value.is_string()) {
        texts.push_back(value.get<std::string>());
        megabytes += static_cast<double>(texts.back().size()) / 1e6;
      }
  }
  try {
    for (int i = 2; i < argc; ++i) {
      // The first pass is measured too, because training reads a dataset once.
      const auto tokenizer = ft::make_tokenizer(argv[i]);
      const auto begin = std::chrono::steady_clock::now();
      std::size_t tokens = 0;
      for (const std::string& text : texts) tokens += tokenizer->encode(text).size();
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      std::printf("%s %.2f %zu\n", argv[i], megabytes / seconds.count(), tokens);
    }
  } catch (const ft::UserError& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return static_cast<int>(e.code);
  }
  return 0;
}
