#include "app/serve/ask.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "app/serve/api_error.h"
#include "data/chat_inputs.h"
#include "engine/io/json.h"

namespace ft {
namespace {

constexpr std::size_t kMostStops = 16;
constexpr std::size_t kLongestStop = 1024;  // bytes

// The fields of an object, which say what is wrong with them. One that is null counts as left out.
class Fields {
 public:
  explicit Fields(const Json& j) : json_(j) {}

  const Json* find(const char* key) {
    known_.insert(key);
    const auto at = json_.find(key);
    return at == json_.end() || at->is_null() ? nullptr : &*at;
  }
  [[noreturn]] static void refuse(const char* key, const std::string& what) {
    throw ApiError(400, str(key, ": ", what), key);
  }
  std::optional<double> number(const char* key, double least, double most) {
    const Json* v = find(key);
    if (!v) return std::nullopt;
    if (!v->is_number() || v->get<double>() < least || v->get<double>() > most)
      refuse(key, str("must be a number from ", least, " to ", most, ", is ", json_excerpt(*v)));
    return v->get<double>();
  }
  std::optional<std::int64_t> integer(const char* key, std::int64_t least, std::int64_t most) {
    const Json* v = find(key);
    if (!v) return std::nullopt;
    const bool whole = v->is_number_unsigned() ? v->get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                                               : v->is_number_integer() && v->get<std::int64_t>() <= most;
    if (!whole || v->get<std::int64_t>() < least)
      refuse(key, str("must be an integer from ", least, " to ", most, ", is ", json_excerpt(*v)));
    return v->get<std::int64_t>();
  }
  bool flag(const char* key) {
    const Json* v = find(key);
    if (v && !v->is_boolean()) refuse(key, "must be true or false, is " + json_excerpt(*v));
    return v && v->get<bool>();
  }
  // Not available: only what does nothing is allowed.
  void neutral(const char* key, const std::vector<Json>& values, const std::string& instead) {
    const Json* v = find(key);
    if (v && std::find(values.begin(), values.end(), *v) == values.end())
      refuse(key, "not available here" + instead);
  }
  void refuse_unknown() const {
    for (const auto& [key, value] : json_.items())
      if (!known_.contains(key))
        throw ApiError(400, "unrecognized request argument: " + printable(key, 60), printable(key, 60));
  }

 private:
  const Json& json_;
  std::set<std::string> known_;
};

std::vector<std::string> stops(Fields& f) {
  const Json* v = f.find("stop");
  if (!v) return {};
  std::vector<std::string> out;
  for (const Json& one : v->is_array() ? *v : Json::array({*v})) {
    if (!one.is_string()) Fields::refuse("stop", "must be a string or a list of strings");
    out.push_back(one.get<std::string>());
    if (out.back().empty() || out.back().size() > kLongestStop)
      Fields::refuse("stop", str("a stop string has 1 to ", kLongestStop, " bytes"));
  }
  if (out.size() > kMostStops) Fields::refuse("stop", str("at most ", kMostStops, " strings"));
  return out;
}

// What a text is in a message: a string, or parts that are texts.
void require_text(Json& content) {
  if (content.is_null() || content.is_string()) return;
  if (!content.is_array()) Fields::refuse("messages", "content is a string or a list of text parts");
  std::string all;
  for (const Json& part : content) {
    const auto text = part.is_object() ? part.find("text") : part.end();
    if (!part.is_object() || part.value("type", Json()) != "text" || text == part.end() || !text->is_string())
      Fields::refuse("messages", "only parts {\"type\": \"text\", \"text\": ...} are available");
    all += text->get<std::string>();
  }
  content = all;
}

ChatTurns turns(Fields& f, std::size_t bytes) {
  const Json* v = f.find("messages");
  if (!v || !v->is_array() || v->empty()) Fields::refuse("messages", "a list of messages, at least one");
  ChatTurns turns;
  turns.bytes = bytes;
  if (const Json* kwargs = f.find("chat_template_kwargs")) try {
      turns.with.kwargs = template_kwargs({}, *kwargs);
    } catch (const std::invalid_argument& wrong) {
      Fields::refuse("chat_template_kwargs", wrong.what());
    }
  for (Json message : *v) {
    const auto role = message.is_object() ? message.find("role") : message.end();
    if (!message.is_object() || role == message.end() || !role->is_string())
      Fields::refuse("messages", "a message is an object with a role and a content");
    if (*role == "developer") *role = "system";  // the newer word for the same
    if (const auto content = message.find("content"); content != message.end()) require_text(*content);
    turns.messages.push_back(std::move(message));
  }
  return turns;
}

void read_prompt(Fields& f, Ask& ask) {
  const Json* v = f.find("prompt");
  if (!v) Fields::refuse("prompt", "is missing");
  if (v->is_array() && v->size() == 1 && !(*v)[0].is_number()) v = &(*v)[0];
  if (v->is_string()) {
    ask.prompt = v->get<std::string>();
    return;
  }
  const bool numbers = v->is_array() && !v->empty() && std::all_of(v->begin(), v->end(), [](const Json& id) {
                         return id.is_number_unsigned() && id.get<std::uint64_t>() <= INT32_MAX;
                       });
  if (!numbers)
    Fields::refuse("prompt", "one string, or one list of token ids; several are several requests");
  ask.ids = v->get<std::vector<std::int32_t>>();
}

// OpenAI's words for what transformers calls do_sample, temperature, top_p; and, as other servers have them,
// transformers' own.
void read_sampling(Fields& f, Ask& ask) {
  GenerationConfig& g = ask.generation;
  const auto temperature = f.number("temperature", 0, 2), top_p = f.number("top_p", 0, 1);
  if (temperature) {
    g.do_sample = *temperature > 0;
    if (g.do_sample) g.temperature = *temperature;
  }
  if (top_p) {
    if (*top_p == 0) Fields::refuse("top_p", "must be above 0");
    g.top_p = *top_p;
    if (!temperature && *top_p < 1) g.do_sample = true;
  }
  if (const auto k = f.integer("top_k", -1, INT32_MAX)) g.top_k = std::max<std::int64_t>(0, *k);
  if (const auto p = f.number("min_p", 0, 1)) g.min_p = *p;
  if (const auto penalty = f.number("repetition_penalty", 1e-3, 1e3)) g.repetition_penalty = *penalty;
  if (const auto seed = f.integer("seed", 0, INT64_MAX)) {
    ask.seeded = true;
    g.seed = *seed;
  }
}

void read_streaming(Fields& f, Ask& ask) {
  ask.stream = f.flag("stream");
  const Json* options = f.find("stream_options");
  if (!options) return;
  if (!ask.stream) Fields::refuse("stream_options", "only with stream");
  if (!options->is_object()) Fields::refuse("stream_options", "an object");
  Fields own(*options);
  ask.usage_at_end = own.flag("include_usage");
  own.neutral("include_obfuscation", {false}, "");
  own.refuse_unknown();
}

void refuse_missing(Fields& f, bool chat) {
  f.neutral("n", {1}, "; each request has one answer");
  f.neutral("logprobs", chat ? std::vector<Json>{false} : std::vector<Json>{}, ": logprobs are not given");
  f.neutral("presence_penalty", {0}, "; repetition_penalty is");
  f.neutral("frequency_penalty", {0}, "; repetition_penalty is");
  f.neutral("logit_bias", {Json::object()}, "");
  f.neutral("response_format", {Json{{"type", "text"}}}, "; answers are text");
  f.neutral("store", {false}, "; nothing is kept");
  if (chat) {
    f.neutral("top_logprobs", {0}, ": logprobs are not given");
    f.neutral("tools", {Json::array()}, "; answers are text");
    f.neutral("tool_choice", {"none"}, "; answers are text");
    f.neutral("functions", {Json::array()}, "; answers are text");
    f.neutral("function_call", {"none"}, "; answers are text");
    f.neutral("modalities", {Json::array({"text"})}, "; answers are text");
  } else {
    f.neutral("best_of", {1}, "; each request has one answer");
    f.neutral("echo", {false}, "");
    f.neutral("suffix", {""}, "");
  }
  f.find("user");  // a name for the client's own records
}

}  // namespace

Ask read_ask(const std::string& body, bool chat, const GenerationConfig& settings) {
  Json j;
  try {
    j = parse_json(body, {"request"});
  } catch (const UserError& wrong) {
    throw ApiError(400, wrong.what());
  }
  if (!j.is_object()) throw ApiError(400, "the body is a JSON object");
  Fields f(j);
  Ask ask{.chat = chat, .generation = settings};
  const Json* model = f.find("model");
  if (!model || !model->is_string())
    Fields::refuse("model", "the name of a model; GET /v1/models lists them");
  ask.model = model->get<std::string>();
  if (chat)
    ask.turns = turns(f, body.size());
  else
    read_prompt(f, ask);
  ask.max_tokens = f.integer("max_tokens", 1, INT32_MAX);
  if (chat) {
    const auto newer = f.integer("max_completion_tokens", 1, INT32_MAX);
    if (newer && ask.max_tokens && *newer != *ask.max_tokens)
      Fields::refuse("max_tokens", "max_completion_tokens says otherwise; give one of them");
    if (newer) ask.max_tokens = newer;
  }
  ask.stop = stops(f);
  read_streaming(f, ask);
  read_sampling(f, ask);
  refuse_missing(f, chat);
  f.refuse_unknown();
  return ask;
}

}  // namespace ft
