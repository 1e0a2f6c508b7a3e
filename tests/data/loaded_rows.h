// Reads the rows of one file as a run does, with the small tokenizer, whose words are Ada, has and letters.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "data/batches/load.h"
#include "tests/data/scratch.h"
#include "tests/support/source.h"

namespace ft::test {

class LoadedRows : public testing::Test {
 protected:
  LoadedRows() {
    config.datasets.resize(1);
    config.datasets[0].path = "t.jsonl";
  }
  LoadContext context() const {
    return {.base = scratch.folder(),
            .vocab_size = 400,
            .tokenizer = [this]() -> const Tokenizer& { return *tokenizer; },
            .rows = wanted};
  }
  Dataset load(const std::string& text) {
    scratch.write("t.jsonl", text);
    LoadedData loaded = load_data(config, 1, context());
    notes = std::move(loaded.notes);
    return std::move(loaded.train);
  }
  std::string error(const std::string& text, Exit code = Exit::input) {
    return error_of(code, [&] { load(text); });
  }
  // Returns the tokens of a sample, and then its trained tokens with "|" for the others.
  std::string text_of(const Dataset& data, std::int64_t i = 0) const {
    return tokenizer->decode(std::vector<std::int32_t>(data[i].input_ids.begin(), data[i].input_ids.end()),
                             false);
  }
  std::string trained(const Dataset& data, std::int64_t i = 0) const {
    std::string out;
    for (std::size_t t = 0; t < data[i].labels.size(); ++t) {
      std::string token = tokenizer->token(data[i].input_ids[t]);
      if (token == "<0x3A>") token = ":";
      if (data[i].labels[t] != kIgnored)
        out += token.starts_with("\xE2\x96\x81") ? " " + token.substr(3) : token;
      else if (!out.ends_with('|'))
        out += '|';
    }
    return out;
  }

  const Scratch scratch;
  DataConfig config;
  WantedRows wanted{};
  std::vector<std::string> notes;
  std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(source_path("tests/data/tiny_tokenizer"));
};

}  // namespace ft::test
