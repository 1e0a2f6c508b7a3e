#include "app/serve/serve.h"

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "app/http/http.h"
#include "app/http/key.h"
#include "app/http/origins.h"
#include "app/process/signals.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "app/serve/adapter_slots.h"
#include "app/serve/api.h"
#include "app/serve/embeddings.h"
#include "app/serve/sandbox.h"

namespace ft {
namespace {

constexpr std::chrono::milliseconds kCheck{50};  // interval of checking signals while idle
constexpr std::int64_t kBody = std::int64_t{8} << 20;
constexpr std::int64_t kSpareConnections = 24;  // connections beyond waiting and answered requests
constexpr std::int64_t kPassTokens = 2048;
constexpr std::int64_t kScores = std::int64_t{8} << 20;  // scores of a prompt's tokens in one pass
constexpr std::int64_t kMostScored = 128;                // tokens whose scores one pass returns

// Returns sizes for generation.batch_size prompts and answers at once, each with the full context.
GenerationShape shape_of(const Answerer& a) {
  const GenerationConfig& g = a.config.generation;
  const std::int64_t context = a.context_length(), slots = g.batch_size;
  if (!a.reads_sources()) {
    GenerationShape shape{{slots, context},
                          std::max({context, slots, std::min(slots * context, kPassTokens)})};
    const std::int64_t at_once = kScores / a.built.model().vocab_size();
    shape.scored = std::max(slots, std::min({at_once, kMostScored, shape.tokens}));
    return shape;
  }
  if (g.max_length && *g.max_length < 2)
    throw UserError(Exit::config,
                    "generation.max_length: the start token counts too, so 1 leaves no room for an answer");
  return {{slots, g.max_length.value_or(g.max_new_tokens + 1), slots, context}, slots, context};
}

// Logs the number of tokens, the time and the speed of requests, but none of their texts.
class Log {
 public:
  explicit Log(Screen& screen) : screen_(screen) {}
  void done(const Api::Done& d) {
    const std::lock_guard lock(mutex_);
    screen_.line(str(d.model, "  ", show::count(d.usage.prompt), " + ",
                     show::plural(d.usage.completion, "token"), "  ", show::duration(d.seconds), "  ",
                     d.finish));
  }
  void line(const std::string& text) {
    const std::lock_guard lock(mutex_);
    screen_.line(text);
  }

 private:
  Screen& screen_;
  std::mutex mutex_;
};

void check_exposure(const ServeArgs& args) {
  if (!is_own_address(args.host) && args.key_file.empty())
    throw UserError(
        Exit::config,
        str("--host ", printable(args.host),
            ": others can reach it, so it needs an API key; give --api-key-file FILE, or leave out --host"));
}

void check_loading(const ServeArgs& args) {
  if (args.max_lora_rank > 0 && args.max_loras == 0)
    throw UserError(Exit::config, "--max-lora-rank: has no effect without --max-loras");
  if (args.max_loras > 0 && args.sandbox)
    throw UserError(Exit::config,
                    "--max-loras: requests have files read, which --sandbox forbids; leave one of them out");
}

// Starts the engine with the model's weights and its adapters' weights.
Engine& start_engine(Answerer& a, const GenerationShape& shape, const lora::AdapterChoice& adapters) {
  auto base = std::move(a.built.base);  // else start_engine loads all weights from it
  Engine& engine = start_engine(a, shape);
  a.built.base = std::move(base);
  engine.store.load([&, own = a.built.reader()](const Parameter& p, Tensor y, std::int64_t first) {
    adapters.has(p) ? adapters.read(p, y, first) : own(p, y, first);
  });
  return engine;
}

// Wakes the handlers when the computing thread ends, also by an error: the server waits for its handlers, and
// they wait for answers.
class Leaving {
 public:
  Leaving(Desk& desk, Errands& errands) : desk_(desk), errands_(errands) {}
  ~Leaving() {
    errands_.leave();
    desk_.leave();
  }
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;

 private:
  Desk& desk_;
  Errands& errands_;
};

void answer_until_stopped(Generator& generator, Desk& desk, Errands& errands, const StopSignals& stop,
                          Log& log) {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> until;
  for (;;) {
    if (stop.asked() && !until) {
      const std::int64_t open = generator.answering();
      log.line(str(stop.name(), ": ending; ",
                   open == 0 ? "no answers are open"
                             : show::plural(open, "answer") + (open == 1 ? " is open" : " are open")));
      desk.close();
      until = Clock::now() + kGrace;
    }
    if (until && Clock::now() > *until) desk.cut();
    errands.run_waiting();
    if (generator.pass(desk)) continue;
    if (until) return;
    desk.wait_for_work(kCheck);
  }
}

}  // namespace

std::string name_of_model(const std::string& as_written) {
  std::error_code none;
  if (!std::filesystem::exists(as_written, none)) return as_written;
  const std::string path = as_written.substr(0, as_written.find_last_not_of('/') + 1);
  return path.substr(path.rfind('/') + 1);
}

Exit serve(const ServeArgs& args) {
  Screen screen(Screen::standard_error());
  check_exposure(args);
  check_loading(args);
  if (args.sandbox) screen.line(enter_sandbox(args));
  if (embeds_texts(args)) {
    if (args.max_loras > 0)
      throw UserError(Exit::config, "--max-loras: is of models that write texts; leave it out");
    return serve_embeddings(args);
  }
  const Origins origins(args.host, args.allowed_origins);
  if (!args.max_reply.empty())
    throw UserError(Exit::config, "--max-reply: is of models that embed texts; leave it out");
  const std::string key = args.key_file.empty() ? "" : read_api_key(args.key_file);
  const std::optional<TlsContext> https = https_of(args.https);
  Answerer a(args);
  show_warnings(screen, a.built);
  if (a.config.generation.num_beams > 1)
    throw UserError(Exit::config,
                    "generation.num_beams: ft serve sends answers token by token, but beam search has no "
                    "tokens before its end; set generation.num_beams=1");
  std::vector<lora::AdapterChoice::Named> named;
  for (const std::string& argument : args.adapters) named.push_back(adapter_named(argument));
  VoiceList voices(make_voices(a, args.name, named));
  const ModelInfo& info = a.built.made.info;
  constexpr std::int64_t kUsualRank = 16;
  const lora::AdapterChoice::Slots by_request{static_cast<std::int32_t>(args.max_loras),
                                              args.max_lora_rank > 0 ? args.max_lora_rank : kUsualRank};
  lora::AdapterChoice adapters(a.built.model(), named, a.built.dtype, info.head, info.embedding, by_request);
  a.built.lora = !named.empty() || by_request.count > 0;

  const GenerationShape shape = shape_of(a);
  Engine& engine = start_engine(a, shape, adapters);
  Generator generator(engine.context, engine.store, a.built.model(), shape, a.chooser());
  generator.before_each_pass([&](std::span<const AdapterRows> rows) { adapters.set_rows(rows); });

  Log log(screen);
  Desk desk(static_cast<std::size_t>(args.max_waiting));
  Errands errands;
  AdapterSlots slots(a, voices, adapters, errands, engine.context.ops,
                     static_cast<std::int32_t>(named.size()), by_request.count);
  Api api(a, voices, slots, desk, {key, origins, shape.cache.capacity, shape.cache.source_capacity, kBody},
          [&](const Api::Done& d) { log.done(d); });
  const StopSignals stop(true);
  HttpServer http(
      args.host, args.port,
      {.connections = shape.cache.slots + args.max_waiting + kSpareConnections, .body = kBody},
      [&](const HttpRequest& r) { return api.answer(r); }, https);
  if (args.sandbox) close_sandbox();
  const Leaving leaving(desk, errands);
  std::string names;
  for (const VoicePtr& v : voices.all()) names += (names.empty() ? "" : ", ") + v->name;
  if (by_request.count > 0)
    log.line(str("requests may load ", show::plural(by_request.count, "adapter"), " of ranks up to ",
                 by_request.rank, ", from any folder that this process can read"));
  log.line(str(info.architecture, " as ", names, "; ", show::plural(shape.cache.slots, "answer"),
               " at once of up to ", show::plural(shape.cache.capacity, "token")));
  const std::string at = http.address();
  log.line(str("listening at ", at, "/v1", key.empty() ? "" : " for clients with the key",
               "; a page to chat at ", at, "/; Ctrl-C ends it"));
  answer_until_stopped(generator, desk, errands, stop, log);
  return Exit::done;
}

}  // namespace ft
