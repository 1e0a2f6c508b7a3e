#include "app/serve/logprobs.h"

#include <algorithm>

#include "data/files/utf8.h"
#include "data/tokenizers/token_spans.h"

namespace ft {
namespace {

// Returns the token's text; if its bytes are not complete characters "bytes:\xe2\x82", as in OpenAI's API.
std::string name_of_token(const std::string& bytes) {
  if (is_utf8(bytes)) return bytes;
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "bytes:";
  for (const char c : bytes) {
    const auto u = static_cast<unsigned char>(c);
    out.append("\\x").append(1, kHex[u >> 4]).append(1, kHex[u & 15]);
  }
  return out;
}

std::int64_t characters(const std::string& bytes) {
  return std::ranges::count_if(bytes, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

Json chat_token(std::int32_t token, float logprob, const Tokenizer& tokenizer) {
  const std::string bytes = token_bytes(tokenizer, token);
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return {{"token", name_of_token(bytes)}, {"logprob", logprob}, {"bytes", std::move(list)}};
}

}  // namespace

Json completion_logprobs(std::span<const ScoredToken> scored, const Tokenizer& tokenizer, bool top,
                         std::int64_t& offset) {
  Json tokens = Json::array(), logprobs = Json::array(), likeliest = Json::array(), offsets = Json::array();
  for (const ScoredToken& s : scored) {
    const std::string bytes = token_bytes(tokenizer, s.token);
    tokens.push_back(name_of_token(bytes));
    logprobs.push_back(s.scored ? Json(s.logprob) : Json());
    offsets.push_back(offset);
    offset += characters(bytes);
    Json best = Json::object();
    for (const TokenLogprob& t : s.top) {
      const std::string name = name_of_token(token_bytes(tokenizer, t.token));
      if (!best.contains(name)) best[name] = t.logprob;  // of tokens with the same text, the likeliest
    }
    likeliest.push_back(s.scored ? std::move(best) : Json());
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", top ? std::move(likeliest) : Json()},
          {"text_offset", std::move(offsets)}};
}

Json chat_logprobs(std::span<const ScoredToken> scored, const Tokenizer& tokenizer) {
  Json content = Json::array();
  for (const ScoredToken& s : scored) {
    Json one = chat_token(s.token, s.logprob, tokenizer), best = Json::array();
    for (const TokenLogprob& t : s.top) best.push_back(chat_token(t.token, t.logprob, tokenizer));
    one["top_logprobs"] = std::move(best);
    content.push_back(std::move(one));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

}  // namespace ft
