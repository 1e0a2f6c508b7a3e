#include "app/samples/show_samples.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "app/screen/format.h"
#include "data/files/utf8.h"
#include "data/tokenizers/json/byte_level.h"
#include "engine/files/json.h"

namespace ft {
namespace {

struct Token {
  std::string text;
  bool special = false;
};

// Returns the token's text, with a space for the vocabulary's symbol of a space.
Token shown(const Tokenizer* tokenizer, std::int32_t id) {
  if (!tokenizer || id >= tokenizer->size()) return {std::to_string(id), false};
  const std::string name = tokenizer->token(id);
  if (name.empty()) return {"<" + std::to_string(id) + ">", true};
  return {replaced(name, "\xE2\x96\x81", " "), tokenizer->is_special(id)};
}

bool is_byte(const std::string& token) {
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with('>');
}

// True if the vocabulary is written in the byte-level alphabet, where \u0120 is a space.
bool is_byte_level(const Tokenizer* tokenizer) {
  return tokenizer && tokenizer->id("\xC4\xA0") && !tokenizer->id("\xE2\x96\x81");
}

// Returns the bytes that a token stands for if its name is not its text; else nothing.
std::string bytes_of(const Tokenizer* tokenizer, std::int32_t id, bool byte_level) {
  const Token token = shown(tokenizer, id);
  if (is_byte(token.text)) return {static_cast<char>(std::stoi(token.text.substr(3, 2), nullptr, 16))};
  return byte_level && !token.special ? from_byte_level(token.text).value_or("") : "";
}

// Returns the tokens of `ids`. Joins tokens that are text only together.
std::vector<Token> shown(const Tokenizer* tokenizer, std::span<const std::int32_t> ids) {
  const bool byte_level = is_byte_level(tokenizer);
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Token token = shown(tokenizer, ids[i]);
    std::string bytes;
    std::size_t end = i;  // end of the tokens in `bytes`
    do {
      const std::string more = bytes_of(tokenizer, ids[end], byte_level);
      if (more.empty()) break;
      bytes += more;
      ++end;
    } while (!is_utf8(bytes) && end < std::min(ids.size(), i + 4));
    const bool readable = bytes.ends_with('\n') || printable(bytes, bytes.size()) == bytes;
    if (end > i && is_utf8(bytes) && readable) {
      token.text = bytes;
      i = end - 1;
    }
    tokens.push_back(token);
  }
  return tokens;
}

// Shows consecutive tokens, all trained or all not, as lines after a margin.
void show_stretch(const std::vector<Token>& tokens, bool trained, Screen& out) {
  const std::string margin = trained ? out.green("+ ") : "  ";
  std::string line = margin;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string text = tokens[i].text;
    const bool feed = text.ends_with('\n');
    if (feed) text.replace(text.size() - 1, 1, "\\n");
    text = printable(text, text.size());
    line += tokens[i].special ? out.yellow(text) : trained ? out.green(text) : text;
    if (feed) {
      out.line(line, Screen::kWhole);
      line = margin;
    } else if (i + 1 < tokens.size()) {
      line += out.dim("|");
    }
  }
  if (line != margin) out.line(line, Screen::kWhole);
}

// Shows the target of an encoder-decoder's sample.
void show_target(const Tokenizer* tokenizer, std::span<const std::int32_t> labels, Screen& out) {
  std::vector<std::int32_t> trained;
  std::copy_if(labels.begin(), labels.end(), std::back_inserter(trained),
               [](std::int32_t label) { return label != kIgnored; });
  show_stretch(shown(tokenizer, trained), true, out);
}

// A prompt and an answer to it.
struct Parted {
  std::vector<std::int32_t> prompt, answer;
};
Parted parted(const SampleStore::View& s, bool seq2seq) {
  if (seq2seq) return {{s.input_ids.begin(), s.input_ids.end()}, {s.labels.begin(), s.labels.end()}};
  const auto begin =
      std::find_if(s.labels.begin(), s.labels.end(), [](std::int32_t l) { return l != kIgnored; });
  const auto border = s.input_ids.begin() + (begin - s.labels.begin());
  return {{s.input_ids.begin(), border}, {border, s.input_ids.end()}};
}

// Returns the tokens of each text of a row; see Sample::classes.
std::vector<std::vector<std::int32_t>> texts_of(const SampleStore::View& s) {
  std::vector<std::vector<std::int32_t>> all;
  for (std::size_t t = 0; t < s.input_ids.size(); ++t) {
    if (t == 0 || s.labels[t] != s.labels[t - 1]) all.emplace_back();
    all.back().push_back(s.input_ids[t]);
  }
  return all;
}

Json classified_json(const Dataset& data, std::int64_t i) {
  Json row = {{"input_ids", data[i].input_ids}};
  const auto classes = data.classes(i);
  if (classes.empty())
    row["labels"] = data[i].labels;
  else if (classes.size() == 1)
    row["label"] = classes.front();
  else
    row["label"] = classes;
  return row;
}

Json texts_json(const Dataset& data, std::int64_t i) {
  const auto texts = texts_of(data[i]);
  Json row = {{"anchor_ids", texts.at(0)}, {"positive_ids", texts.at(1)}};
  for (std::size_t n = 2; n < texts.size(); ++n) row["negative_ids"].push_back(texts[n]);
  return row;
}

Json answers_json(const Dataset& data, std::int64_t i) {
  if (data.kind() == RowKind::classified) return classified_json(data, i);
  if (data.kind() == RowKind::texts) return texts_json(data, i);
  const Parted first = parted(data[i], data.seq2seq());
  Json row = {{"prompt_ids", first.prompt}};
  if (data.kind() == RowKind::prompt) return row;
  if (data.kind() == RowKind::pair) {
    row["chosen_ids"] = first.answer;
    row["rejected_ids"] = parted(data.rejected(i), data.seq2seq()).answer;
    if (data.value(i) != 0) row["margin"] = data.value(i);
  } else {
    row["completion_ids"] = first.answer;
    row["label"] = data.value(i) > 0;
  }
  return row;
}

// Shows a prompt, and its answers one after another.
void show_answers(const Dataset& data, std::int64_t i, const Tokenizer* tokenizer, Screen& out) {
  const Parted first = parted(data[i], data.seq2seq());
  show_stretch(shown(tokenizer, first.prompt), false, out);
  if (data.kind() == RowKind::prompt) return;
  const bool pair = data.kind() == RowKind::pair;
  out.line(out.dim(pair ? "chosen" : data.value(i) > 0 ? "desired" : "not desired"));
  show_stretch(shown(tokenizer, first.answer), true, out);
  if (!pair) return;
  out.line(out.dim("rejected"));
  show_stretch(shown(tokenizer, parted(data.rejected(i), data.seq2seq()).answer), true, out);
}

// Shows an input and its label, or the class of each token.
void show_classified(const Dataset& data, std::int64_t i, const Tokenizer* tokenizer, Screen& out) {
  const auto [ids, labels] = data[i];
  show_stretch(shown(tokenizer, ids), true, out);
  std::string label;
  for (const float y : data.classes(i)) label += str(label.empty() ? "label " : ", ", y);
  for (std::size_t t = 0; label.empty() && t < ids.size(); ++t)
    if (labels[t] != kIgnored) out.line(str("  token ", t, ": class ", labels[t]), Screen::kWhole);
  if (!label.empty()) out.line(label, Screen::kWhole);
}

void show_texts(const Dataset& data, std::int64_t i, const Tokenizer* tokenizer, Screen& out) {
  const auto texts = texts_of(data[i]);
  for (std::size_t n = 0; n < texts.size(); ++n) {
    out.line(out.dim(n == 0 ? "anchor" : n == 1 ? "positive" : "negative"));
    show_stretch(shown(tokenizer, texts[n]), true, out);
  }
}

// Shows a sample that has an input and labels.
void show_stretches(std::span<const std::int32_t> ids, std::span<const std::int32_t> labels,
                    const Tokenizer* tokenizer, Screen& out) {
  for (std::size_t begin = 0, end = 0; begin < ids.size(); begin = end) {
    const bool trained = labels[begin] != kIgnored;
    while (end < ids.size() && (labels[end] != kIgnored) == trained) ++end;
    show_stretch(shown(tokenizer, ids.subspan(begin, end - begin)), trained, out);
  }
  // Labels that differ from the input's token are rare; each gets a line.
  const auto other = [&](std::size_t t) { return labels[t] != kIgnored && labels[t] != ids[t]; };
  for (std::size_t t = 0; t < ids.size(); ++t)
    if (other(t))
      out.line(str("  token ", t, ": the label is ", labels[t], ", the token ", ids[t]), Screen::kWhole);
}

}  // namespace

void show_samples_json(const Dataset& data, std::optional<std::int64_t> limit, Screen& out) {
  const std::int64_t count = std::min(data.size(), limit.value_or(data.size()));
  for (std::int64_t i = 0; i < count; ++i) {
    Json row;
    if (data.kind() == RowKind::example) {
      row["input_ids"] = data[i].input_ids;
      row["labels"] = data[i].labels;
    } else {
      row = answers_json(data, i);
    }
    row["source"] = data.source(i);
    out.line(json_text(row, -1), Screen::kWhole);
  }
}

void show_sample(const Dataset& data, std::int64_t i, const std::string& title, const Tokenizer* tokenizer,
                 Screen& out) {
  const auto [ids, labels] = data[i];
  out.line(out.bold(str(title, ", ", printable(data.source(i)), ", ",
                        show::plural(static_cast<std::int64_t>(ids.size()), "token"), ", ",
                        show::count(count_targets(labels, data.seq2seq())), " trained")),
           Screen::kWhole);
  if (data.kind() == RowKind::classified) {
    show_classified(data, i, tokenizer, out);
  } else if (data.kind() == RowKind::texts) {
    show_texts(data, i, tokenizer, out);
  } else if (data.kind() != RowKind::example) {
    show_answers(data, i, tokenizer, out);
  } else if (data.seq2seq()) {
    show_stretch(shown(tokenizer, ids), false, out);
    show_target(tokenizer, labels, out);
  } else {
    show_stretches(ids, labels, tokenizer, out);
  }
  out.line("");
}

void show_samples(const Dataset& data, const Tokenizer* tokenizer, std::int64_t limit, Screen& out) {
  const std::int64_t count = std::min(data.size(), limit);
  for (std::int64_t i = 0; i < count; ++i)
    show_sample(data, i, str("sample ", show::count(i + 1), " of ", show::count(data.size())), tokenizer,
                out);
  const std::int64_t left = data.size() - count;
  out.line(str(show::plural(data.size(), "sample"), ", ", show::quantity(static_cast<double>(data.tokens())),
               " tokens (",
               show::percent(static_cast<double>(data.targets()), static_cast<double>(data.tokens())),
               " trained), longest ", show::count(data.longest()),
               left > 0 ? str("; ", show::count(left), " not shown: --limit") : ""));
}

}  // namespace ft
