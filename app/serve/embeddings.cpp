#include "app/serve/embeddings.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <ctime>
#include <mutex>
#include <optional>
#include <thread>

#include "app/answers/text_model.h"
#include "app/config/head_settings.h"
#include "app/http/http.h"
#include "app/http/key.h"
#include "app/http/origins.h"
#include "app/process/signals.h"
#include "app/screen/format.h"
#include "app/serve/fields.h"
#include "app/serve/reply.h"
#include "app/serve/sandbox.h"
#include "app/serve/voices.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/core/base64.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "engine/train/objectives/list.h"

namespace ft {
namespace {

constexpr std::int64_t kEmbeddingBody = std::int64_t{8} << 20;
constexpr std::int64_t kEmbeddedTokens = 2048, kEmbeddedTexts = 64;  // of a pass
constexpr std::size_t kMostInputs = 2048;                            // of a request
constexpr const char* kUsualReply = "64MiB";

using Ids = std::vector<std::int32_t>;

struct EmbeddingAsk {
  std::vector<Ids> texts;
  bool base64 = false;
  std::int64_t dimensions = 0;  // 0: all
};

// Returns the bytes that a vector takes in a reply, at most. Counts each number as its longest text.
std::int64_t bytes_of_vector(std::int64_t dimensions, bool base64) {
  constexpr std::int64_t kLongestNumber = 25, kAroundVector = 64;
  return kAroundVector + (base64 ? (4 * dimensions + 2) / 3 * 4 : kLongestNumber * dimensions);
}

class EmbeddingApi {
 public:
  EmbeddingApi(TextModel& model, std::string name, std::string key, const Origins& origins,
               std::int64_t longest, std::int64_t most_bytes, const StopSignals& stop)
      : model_(model),
        name_(std::move(name)),
        key_(std::move(key)),
        origins_(origins),
        longest_(longest),
        most_bytes_(most_bytes),
        stop_(stop),
        started_(std::time(nullptr)),
        tokenizer_(make_tokenizer(model.config().model.tokenizer())) {}

  HttpReply answer(const HttpRequest& r) {
    HttpReply reply;
    try {
      reply = route(r);
    } catch (const ApiError& e) {
      reply = error_reply(e);
    } catch (const std::exception&) {  // the text is for the server's operator only
      reply = error_reply({500, "internal error"});
    }
    origins_.admit(r, reply);
    return reply;
  }

 private:
  HttpReply route(const HttpRequest& r) {
    if (r.path == "/health") return health_reply();
    std::string fault = origins_.fault_of_origin(r);
    if (fault.empty() && key_.empty()) fault = origins_.fault_of_host(r);
    if (!fault.empty()) throw ApiError(403, fault);
    if (Origins::is_preflight(r)) return {.status = 204};
    if (!key_.empty() && !knows_key(r.authorization, key_))
      throw ApiError(401, "the API key is missing or wrong: Authorization: Bearer KEY", "",
                     "invalid_api_key");
    const bool embeddings = r.path == "/v1/embeddings", models = r.path == "/v1/models";
    if (!embeddings && !models)
      throw ApiError(404,
                     str("there is no ", printable(r.path, 100),
                         "; this model embeds texts, and there are /v1/models, /v1/embeddings and /health"));
    if (r.method != (embeddings ? "POST" : "GET"))
      throw ApiError(405, str(r.path, " is asked with ", embeddings ? "POST" : "GET"));
    return embeddings ? embed(r) : models_reply({name_}, started_, false);
  }

  HttpReply embed(const HttpRequest& r) {
    if (r.too_large) throw ApiError(413, str("a request has at most ", kEmbeddingBody, " bytes"));
    if (!r.content_type.starts_with("application/json"))
      throw ApiError(415, "the body is JSON: Content-Type: application/json");
    Json body;
    try {
      body = parse_json(r.body, {"request"});  // of limited depth
    } catch (const UserError& wrong) {
      throw ApiError(400, wrong.what());
    }
    if (!body.is_object()) throw ApiError(400, "the body is a JSON object");
    const EmbeddingAsk ask = read(body);
    body = {};
    // The one piece of memory that a reply's text takes: it does not grow.
    std::string text;
    text.reserve(static_cast<std::size_t>(room_of(ask)));
    text = R"({"object":"list","data":[)";
    std::int64_t tokens = 0, index = 0;
    for (const Ids& ids : ask.texts) tokens += std::ssize(ids);
    using Clock = std::chrono::steady_clock;
    std::optional<Clock::time_point> until;  // set after a signal
    for (std::size_t begin = 0; begin < ask.texts.size();) {
      if (r.gone()) throw ApiError(499, "the client has gone");
      if (!until && stop_.asked()) until = Clock::now() + kGrace;
      if (until && Clock::now() > *until) throw ApiError(503, "the server is shutting down");
      std::size_t end = begin;
      const auto vectors = pass(ask.texts, begin, end);
      for (const std::vector<float>& v : vectors) {
        const Json one = {{"object", "embedding"}, {"index", index}, {"embedding", shown(v, ask)}};
        if (index++ > 0) text += ',';
        text += json_text(one, -1);
      }
      begin = end;
    }
    const Json usage = {{"prompt_tokens", tokens}, {"total_tokens", tokens}};
    text += R"(],"model":)";
    text += json_text(name_, -1);
    text += R"(,"usage":)";
    text += json_text(usage, -1);
    text += '}';
    return {.body = std::move(text)};
  }

  // Returns the bytes that the reply has at most. Throws ApiError if its vectors may be longer than allowed.
  std::int64_t room_of(const EmbeddingAsk& ask) const {
    constexpr std::int64_t kAroundVectors = 256;
    const std::int64_t width = model_.built().model().vocab_size(),
                       dimensions = ask.dimensions > 0 ? std::min(ask.dimensions, width) : width;
    const std::int64_t vector = bytes_of_vector(dimensions, ask.base64);
    if (std::ssize(ask.texts) <= most_bytes_ / vector)
      return std::ssize(ask.texts) * vector + std::ssize(json_text(name_, -1)) + kAroundVectors;
    throw ApiError(
        400,
        str("the reply may have more than ", most_bytes_, " bytes (--max-reply): ask with fewer texts",
            ask.base64 ? "" : ", with encoding_format base64", ", or with dimensions"),
        "input");
  }

  // Embeds the texts from `begin` on that fit one pass; sets `end`.
  std::vector<std::vector<float>> pass(const std::vector<Ids>& texts, std::size_t begin, std::size_t& end) {
    Batch b;
    for (; end < texts.size() && end - begin < kEmbeddedTexts; ++end) {
      if (end > begin && b.tokens() + std::ssize(texts[end]) > kEmbeddedTokens) break;
      model_.add(b, texts[end]);
    }
    const std::lock_guard lock(computing_);
    return model_.embeddings(b);
  }

  EmbeddingAsk read(const Json& body) const {
    Fields f(body);
    EmbeddingAsk ask;
    if (const Json* model = f.find("model"); model && *model != name_)
      throw ApiError(404, "there is no such model; GET /v1/models lists them", "model", "model_not_found");
    if (const Json* format = f.find("encoding_format")) {
      ask.base64 = *format == "base64";
      if (!ask.base64 && *format != "float") Fields::refuse("encoding_format", "is float or base64");
    }
    ask.dimensions = f.integer("dimensions", 1, model_.built().model().vocab_size()).value_or(0);
    f.find("user");  // accepted and ignored, as it changes no result
    const Json* input = f.find("input");
    f.refuse_unknown();
    if (!input) Fields::refuse("input", "is missing");
    const bool several = input->is_array() && !input->empty() && !(*input)[0].is_number();
    if (several && input->size() > kMostInputs)
      Fields::refuse("input", str("has at most ", kMostInputs, " texts"));
    if (!several) ask.texts.push_back(ids_of(*input));
    for (std::size_t i = 0; several && i < input->size(); ++i) ask.texts.push_back(ids_of((*input)[i]));
    return ask;
  }

  Ids ids_of(const Json& text) const {
    Ids ids;
    const std::int64_t vocabulary = model_.built().made.info.vocab_size;
    if (text.is_string()) {
      ids = tokenizer_->encode_with_specials(text.get<std::string>());
    } else {
      if (!text.is_array())
        Fields::refuse("input",
                       "a string, a list of token ids, or a list of these, is " + json_excerpt(text));
      for (const Json& id : text) {
        if (!id.is_number_integer() || id < 0 || id >= vocabulary)
          Fields::refuse("input", str("token ", json_excerpt(id), "; the model's are 0 to ", vocabulary - 1));
        ids.push_back(id.get<std::int32_t>());
      }
    }
    if (ids.empty()) Fields::refuse("input", "a text is empty");
    if (*std::max_element(ids.begin(), ids.end()) >= vocabulary)
      Fields::refuse("input", "the tokenizer has a token that the model does not know");
    if (std::ssize(ids) > longest_)
      Fields::refuse("input", str("a text of ", ids.size(), " tokens; at most ", longest_));
    return ids;
  }

  // Cuts a vector to the requested dimensions, and normalises it again if the model's embeddings are
  // normalised.
  Json shown(std::vector<float> v, const EmbeddingAsk& ask) const {
    if (ask.dimensions > 0 && ask.dimensions < std::ssize(v)) {
      v.resize(static_cast<std::size_t>(ask.dimensions));
      double squares = 0;
      for (const float x : v) squares += static_cast<double>(x) * static_cast<double>(x);
      const bool normalize = model_.config().objective.normalize_embeddings.value_or(true);
      const double length = normalize ? std::max(std::sqrt(squares), 1e-12) : 1;
      for (float& x : v) x = static_cast<float>(static_cast<double>(x) / length);
    }
    if (!ask.base64) return v;
    static_assert(std::endian::native == std::endian::little, "OpenAI's vectors are little-endian");
    return base64({reinterpret_cast<const char*>(v.data()), v.size() * sizeof(float)});
  }

  TextModel& model_;
  std::string name_, key_;
  const Origins& origins_;
  std::int64_t longest_, most_bytes_;
  const StopSignals& stop_;
  std::int64_t started_;  // seconds since 1970
  std::unique_ptr<Tokenizer> tokenizer_;
  std::mutex computing_;
};

std::string only_adapter(const ServeArgs& args) {
  return args.adapters.empty() ? "" : adapter_named(args.adapters[0]).folder;
}

// Throws UserError (config) for options that have no effect on embeddings.
void check_options(const ServeArgs& args) {
  if (args.adapters.size() > 1)
    throw UserError(Exit::config, "--adapter: one adapter of a model that embeds texts is served at a time");
  if (!args.quantize.empty() || !args.quantize_head.empty())
    throw UserError(Exit::config,
                    "--quantize: is of models that write; quantization.load_in_4bit=true keeps this "
                    "one's weights in 4 bits");
  constexpr std::array kKnown{"quantization.",
                              "device=",
                              "model.tokenizer_name_or_path=",
                              "objective.pooling_mode=",
                              "objective.normalize_embeddings=",
                              "data.max_seq_length="};
  for (const std::string& o : args.overrides)
    if (std::ranges::none_of(kKnown, [&](const char* known) { return o.starts_with(known); }))
      throw UserError(Exit::config,
                      str(printable(o),
                          ": of a model that embeds texts only quantization, device, "
                          "model.tokenizer_name_or_path, objective.pooling_mode, "
                          "objective.normalize_embeddings and data.max_seq_length are allowed here"));
}

std::int64_t longest_text_of(const TextModel& model) {
  const std::int64_t positions = model.built().made.info.positions,
                     longest = model.config().data.max_seq_length;
  return positions > 0 ? std::min(positions, longest) : longest;
}

}  // namespace

bool embeds_texts(const ServeArgs& args) {
  const auto embeds = [&](const std::string& adapter) {
    const auto trained = trained_objective(args.model, adapter);
    return trained && trained->type == &objectives::kEmbed;
  };
  if (args.adapters.empty()) return embeds("");
  return std::ranges::any_of(args.adapters,
                             [&](const std::string& named) { return embeds(adapter_named(named).folder); });
}

Exit serve_embeddings(const ServeArgs& args) {
  check_options(args);
  const std::int64_t most_bytes =
      parse_byte_size(args.max_reply.empty() ? kUsualReply : args.max_reply, "--max-reply");
  Screen screen(Screen::standard_error());
  const Origins origins(args.host, args.allowed_origins);
  const std::string key = args.key_file.empty() ? "" : read_api_key(args.key_file);
  const std::optional<TlsContext> https = https_of(args.https);
  const std::string dtype = args.dtype == "auto" ? "float32" : args.dtype;
  TextModel model(text_model_config(args.model, only_adapter(args), dtype, args.overrides, "ft serve"));
  if (const std::int64_t least = bytes_of_vector(model.built().model().vocab_size(), true);
      most_bytes < least)
    throw UserError(Exit::config,
                    str("--max-reply: a reply with one vector takes ", least, " bytes; give at least these"));
  show_warnings(screen, model.built());
  const std::int64_t longest = longest_text_of(model), tokens = std::max(longest, kEmbeddedTokens);
  const bool mean = model.config().objective.pooling_mode == PoolingMode::mean;
  model.start({{.tokens = tokens,
                .targets = mean ? tokens : kEmbeddedTexts,
                .sequences = kEmbeddedTexts,
                .longest = longest}});
  const std::string name = args.adapters.empty() ? args.name : adapter_named(args.adapters[0]).name;
  const StopSignals stop(true);
  EmbeddingApi api(model, name, key, origins, longest, most_bytes, stop);
  const HttpServer http(
      args.host, args.port, {.connections = args.max_waiting, .body = kEmbeddingBody},
      [&](const HttpRequest& r) { return api.answer(r); }, https);
  if (args.sandbox) close_sandbox();
  screen.line(str(model.built().made.info.architecture, " as ", name, "; texts of up to ",
                  show::plural(longest, "token")));
  screen.line(str("listening at ", http.address(), "/v1/embeddings",
                  key.empty() ? "" : " for clients with the key", "; Ctrl-C ends it"));
  while (!stop.asked()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return Exit::done;
}

}  // namespace ft
