// A tokenizer for golden T5s, which have none.
#pragma once
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace ft::test {

// Writes a tokenizer in which every token of the model's vocabulary is a word: token 17 is "w17".
inline void give_words(const std::filesystem::path& model) {
  std::ifstream config(model / "config.json");
  const std::int64_t size = nlohmann::json::parse(config)["vocab_size"];
  const auto piece = [](const std::string& text, double score) {
    return nlohmann::json::array({text, score});
  };
  nlohmann::json vocab = nlohmann::json::array({piece("<pad>", 0), piece("</s>", 0), piece("<unk>", 0)});
  for (std::int64_t id = 3; id < size; ++id) vocab.push_back(piece("\u2581w" + std::to_string(id), -1));
  const nlohmann::json space = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}, {"split", true}};
  const nlohmann::json tokenizer = {{"added_tokens", nlohmann::json::array()},
                                    {"pre_tokenizer", space},
                                    {"decoder", space},
                                    {"model", {{"type", "Unigram"}, {"unk_id", 2}, {"vocab", vocab}}}};
  std::ofstream(model / "tokenizer.json") << tokenizer.dump();
  std::ofstream(model / "tokenizer_config.json") << R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 0})";
}

}  // namespace ft::test
