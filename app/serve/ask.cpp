#include "app/serve/ask.h"

#include <algorithm>

#include "app/serve/api_error.h"
#include "app/serve/fields.h"

namespace ft {
namespace {

constexpr std::size_t kMostStops = 16;
constexpr std::size_t kLongestStop = 1024;  // bytes of a stop string
constexpr std::size_t kMostStopIds = 1024;

constexpr std::int64_t kMostAnswers = 2048;  // answers to a request
constexpr std::int64_t kMostTop = 20;        // likeliest tokens reported for a token

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

bool is_ids(const Json& v) {
  return v.is_array() && std::all_of(v.begin(), v.end(), [](const Json& id) {
           return id.is_number_unsigned() && id.get<std::uint64_t>() <= INT32_MAX;
         });
}

// Reads vLLM's fields about token ids.
void read_ids(Fields& f, Ask& ask) {
  ask.token_ids = f.flag("return_token_ids");
  if (ask.token_ids && ask.stream) Fields::refuse("return_token_ids", "not with stream");
  const Json* v = f.find("stop_token_ids");
  if (!v) return;
  if (!is_ids(*v) || v->size() > kMostStopIds)
    Fields::refuse("stop_token_ids",
                   str("a list of at most ", kMostStopIds, " token ids, is ", json_excerpt(*v)));
  ask.stop_ids = v->get<std::vector<std::int32_t>>();
}

AskedText prompt_of(const Json& v) {
  if (v.is_string()) return {v.get<std::string>(), {}};
  if (!is_ids(v) || v.empty())
    Fields::refuse("prompt", "a string, a list of token ids, or a list of these, is " + json_excerpt(v));
  return {"", v.get<std::vector<std::int32_t>>()};
}

void read_prompts(Fields& f, Ask& ask) {
  const Json* v = f.find("prompt");
  if (!v) Fields::refuse("prompt", "is missing");
  const bool several = v->is_array() && !v->empty() && !(*v)[0].is_number();
  if (!several) return ask.prompts.push_back(prompt_of(*v));
  for (const Json& one : *v) ask.prompts.push_back(prompt_of(one));
}

// Reads the sampling settings: OpenAI's names for transformers' do_sample, temperature and top_p, and
// transformers' other names, which other servers accept too.
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

// Reads the request for tokens' probabilities: the number of likeliest tokens in completions; a flag and that
// number in chats.
void read_logprobs(Fields& f, Ask& ask) {
  if (!ask.chat) {
    const Json* v = f.find("logprobs");
    if (v && v->is_boolean() && !v->get<bool>()) return;
    ask.logprobs = f.integer("logprobs", 0, kMostTop);
    return;
  }
  const bool wanted = f.flag("logprobs");
  const auto top = f.integer("top_logprobs", 0, kMostTop);
  if (top.value_or(0) > 0 && !wanted) Fields::refuse("top_logprobs", "only with logprobs: true");
  if (wanted) ask.logprobs = top.value_or(0);
}

void read_lengths(Fields& f, Ask& ask) {
  const std::int64_t least = ask.echo ? 0 : 1;
  ask.max_tokens = f.integer("max_tokens", least, INT32_MAX);
  if (ask.chat) {
    const auto newer = f.integer("max_completion_tokens", least, INT32_MAX);
    if (newer && ask.max_tokens && *newer != *ask.max_tokens)
      Fields::refuse("max_tokens", "max_completion_tokens has another value; give one of them");
    if (newer) ask.max_tokens = newer;
  }
  ask.n = f.integer("n", 1, kMostAnswers).value_or(1);
  const auto prompts = static_cast<std::int64_t>(std::max<std::size_t>(1, ask.prompts.size()));
  if (prompts * ask.n > kMostAnswers)
    Fields::refuse(ask.chat ? "n" : "prompt", str("a request has at most ", kMostAnswers, " answers"));
}

void refuse_missing(Fields& f, const Ask& ask) {
  f.neutral("presence_penalty", {0}, "; repetition_penalty is");
  f.neutral("frequency_penalty", {0}, "; repetition_penalty is");
  f.neutral("logit_bias", {Json::object()}, "");
  f.neutral("response_format", {Json{{"type", "text"}}}, "; answers are text");
  f.neutral("store", {false}, "; nothing is kept");
  if (ask.chat) {
    f.neutral("functions", {Json::array()}, "; tools are");
    f.neutral("function_call", {"none"}, "; tools are");
    f.neutral("modalities", {Json::array({"text"})}, "; answers are text");
  } else {
    f.neutral("best_of", {1, ask.n}, "; all n answers are given");
    f.neutral("suffix", {""}, "");
  }
  f.find("user");  // only for the client's own records
}

Json object_of(const std::string& body) {
  Json j;
  try {
    j = parse_json(body, {"request"});
  } catch (const UserError& wrong) {
    throw ApiError(400, wrong.what());
  }
  if (!j.is_object()) throw ApiError(400, "the body is a JSON object");
  return j;
}

std::string text_of(Fields& f, const char* key) {
  const Json* v = f.find(key);
  if (!v || !v->is_string() || v->get<std::string>().empty()) Fields::refuse(key, "must be a text");
  return v->get<std::string>();
}

}  // namespace

AdapterChange read_adapter_change(const std::string& body, bool load) {
  const Json j = object_of(body);
  Fields f(j);
  AdapterChange change{.name = text_of(f, "lora_name")};
  if (load) {
    change.folder = text_of(f, "lora_path");
    change.in_place = f.flag("load_inplace");
    f.find("base_model_name");  // there is only one
  } else {
    f.find("lora_int_id");
  }
  f.refuse_unknown();
  return change;
}

Ask read_ask(const std::string& body, bool chat, const GenerationConfig& settings) {
  const Json j = object_of(body);
  Fields f(j);
  Ask ask{.chat = chat, .generation = settings};
  const Json* model = f.find("model");
  if (!model || !model->is_string())
    Fields::refuse("model", "the name of a model; GET /v1/models lists them");
  ask.model = model->get<std::string>();
  if (chat) {
    ask.turns = read_turns(f, body.size());
    ask.tools = read_tools(f, ask.turns);
  } else {
    read_prompts(f, ask);
    ask.echo = f.flag("echo");
  }
  read_lengths(f, ask);
  read_logprobs(f, ask);
  ask.stop = stops(f);
  read_streaming(f, ask);
  read_ids(f, ask);
  read_sampling(f, ask);
  refuse_missing(f, ask);
  f.refuse_unknown();
  return ask;
}

}  // namespace ft
