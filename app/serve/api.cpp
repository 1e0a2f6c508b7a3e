#include "app/serve/api.h"

#include <algorithm>
#include <ctime>
#include <stdexcept>

#include "app/http/key.h"
#include "app/http/web_page.h"
#include "app/serve/answering.h"
#include "app/serve/chat_page.h"
#include "engine/files/hash.h"

namespace ft {
namespace {

constexpr const char* kPagePath = "/";
constexpr const char *kLoadAdapter = "/v1/load_lora_adapter", *kUnloadAdapter = "/v1/unload_lora_adapter";

}  // namespace

Api::Api(const Answerer& a, const VoiceList& voices, AdapterSlots& slots, Desk& desk, Rules rules,
         std::function<void(const Done&)> on_done)
    : answerer_(a),
      voices_(voices),
      slots_(slots),
      desk_(desk),
      rules_(std::move(rules)),
      on_done_(std::move(on_done)),
      started_(std::time(nullptr)),
      run_(str(started_, ' ', static_cast<const void*>(this))) {}

HttpReply Api::answer(const HttpRequest& request) {
  HttpReply reply = answer_or_error(request);
  rules_.origins.admit(request, reply);
  return reply;
}

HttpReply Api::answer_or_error(const HttpRequest& request) {
  try {
    return route(request);
  } catch (const ApiError& e) {
    return error_reply(e);
  } catch (const UserError& e) {
    return error_reply({400, e.what()});
  } catch (const std::exception&) {  // the text is for the server's operator only
    return error_reply({500, "internal error"});
  }
}

// Checks that the caller may ask. The page and the browser's question before a request of another origin come
// without a key.
void Api::check_caller(const HttpRequest& r) const {
  std::string fault = rules_.origins.fault_of_origin(r);
  if (fault.empty() && rules_.key.empty()) fault = rules_.origins.fault_of_host(r);
  if (!fault.empty()) throw ApiError(403, fault);
  const bool open = r.path == kPagePath || Origins::is_preflight(r);
  if (!open && !rules_.key.empty() && !knows_key(r.authorization, rules_.key))
    throw ApiError(401, "the API key is missing or wrong: Authorization: Bearer KEY", "", "invalid_api_key");
}

HttpReply Api::route(const HttpRequest& r) {
  const bool health = r.path == "/health";  // monitoring needs no key
  if (!health) check_caller(r);
  if (Origins::is_preflight(r)) return {.status = 204};
  const bool page = r.path == kPagePath;
  const bool chat = r.path == "/v1/chat/completions";
  const bool completions = chat || r.path == "/v1/completions";
  const std::string one = "/v1/models/";
  const bool models = r.path == "/v1/models", model = r.path.starts_with(one);
  const bool load = r.path == kLoadAdapter, change = slots_.any() && (load || r.path == kUnloadAdapter);
  if (!completions && !models && !model && !health && !page && !change)
    throw ApiError(404, str("there is no ", printable(r.path, 100),
                            "; there are /v1/models, /v1/completions, /v1/chat/completions and /health"));
  const bool posts = completions || change;
  if (r.method != (posts ? "POST" : "GET") && (posts || r.method != "HEAD"))
    throw ApiError(405, str(printable(r.path, 100), " is asked with ", posts ? "POST" : "GET"));
  if (completions) return complete(r, chat);
  if (change) return change_adapters(r, load);
  if (page) return page_reply(r, kChatPage, kChatPage);
  if (health) {
    if (desk_.closed()) throw ApiError(503, "the server is shutting down");
    return health_reply();
  }
  if (model) return models_reply({voice(r.path.substr(one.size()))->name}, started_, true);
  std::vector<std::string> names;
  for (const VoicePtr& v : voices_.all()) names.push_back(v->name);
  return models_reply(names, started_, false);
}

VoicePtr Api::voice(const std::string& name) const {
  if (VoicePtr found = voices_.find(name)) return found;
  throw ApiError(404, str("there is no model \"", printable(name, 100), "\"; GET /v1/models lists them"),
                 "model", "model_not_found");
}

std::vector<std::int32_t> Api::ids_of(const AskedText& asked, const Voice& v) const {
  if (asked.ids) return *asked.ids;
  try {
    return answerer_.ids_of(asked.text, *v.tokenizer);
  } catch (const UserError& wrong) {
    throw ApiError(400, wrong.what(), "prompt");
  }
}

std::vector<std::int32_t> Api::conversation(Ask& ask, const Voice& v) const {
  if (answerer_.reads_sources())
    throw ApiError(400, "this model reads one text at a time, without turns; use /v1/completions");
  if (!v.asking->has_turns() && !v.asking->is_known())
    throw ApiError(400, str("the model \"", v.name,
                            "\" has no chat template; use /v1/completions, or start the "
                            "server with data.chat_template=NAME"));
  try {
    if (ask.tools.names.empty()) return v.asking->conversation(std::move(ask.turns));
    ChatTurns without = ask.turns;
    without.with.tools = {};
    const std::vector<std::int32_t> ids = v.asking->conversation(std::move(ask.turns));
    if (ids == v.asking->conversation(std::move(without)))
      throw ApiError(400, str("tools: the chat template of \"", v.name, "\" has no place for them"), "tools");
    return ids;
  } catch (const std::invalid_argument& wrong) {
    throw ApiError(400, wrong.what(), "messages");
  } catch (const UserError& wrong) {
    throw ApiError(400, wrong.what(), "messages");
  }
}

void Api::check_ids(const std::vector<std::int32_t>& ids, const char* param) const {
  const std::int64_t vocabulary = answerer_.built.model().vocab_size();
  if (ids.empty()) throw ApiError(400, str(param, ": it is empty; there is nothing to answer"), param);
  for (const std::int32_t id : ids)
    if (id < 0 || id >= vocabulary)
      throw ApiError(400, str(param, ": token ", id, "; the model's are 0 to ", vocabulary - 1), param);
}

std::shared_ptr<Question> Api::question(const Ask& ask, const VoicePtr& voice, std::vector<std::int32_t> ids,
                                        std::int64_t copy) {
  const Voice& v = *voice;
  const char* param = ask.chat ? "messages" : "prompt";
  check_ids(ids, param);
  const auto given = static_cast<std::int64_t>(ids.size());
  Prompt p = answerer_.prompt_of(std::move(ids));
  const auto held = static_cast<std::int64_t>(p.ids.size());
  const std::int64_t room = rules_.context - held;
  const std::int64_t wanted = std::max<std::int64_t>(1, ask.max_tokens.value_or(1));
  const bool too_long = answerer_.reads_sources() ? given > rules_.sources : room < 1;
  if (too_long || wanted > room)
    throw ApiError(400,
                   str("this server has room for ", rules_.context, " tokens",
                       answerer_.reads_sources() ? str(" of an answer to ", rules_.sources) : "",
                       "; the request has ", given, " and asks for ", wanted),
                   param, "context_length_exceeded");
  p.max_new_tokens = ask.max_tokens ? wanted : std::min(room, ask.generation.most(p.ids.size()));
  if (p.max_new_tokens < 1)
    throw ApiError(400, str("the request has ", given, " tokens, which leave no room for an answer"), param,
                   "context_length_exceeded");
  p.number = ask.seeded ? static_cast<std::uint64_t>(copy) : ++drawn_;
  p.adapter = v.adapter;
  p.scores = ask.logprobs.has_value();
  p.prompt_scores = ask.echo && p.scores;
  const bool turn = ask.chat && v.asking->has_turns();
  AnswerEnds ends = turn ? v.asking->chat_ends() : v.asking->plain_ends();
  ends.texts.insert(ends.texts.end(), ask.stop.begin(), ask.stop.end());
  ends.tokens.insert(ends.tokens.end(), ask.stop_ids.begin(), ask.stop_ids.end());
  TextStream text(*v.tokenizer, std::move(ends.texts), ask.echo ? p.ids : std::vector<std::int32_t>());
  auto q = std::make_shared<Question>(std::move(p), TokenChooser(ask.generation, std::move(ends.tokens)),
                                      std::move(text));
  q->likeliest = static_cast<std::size_t>(ask.logprobs.value_or(0));
  q->answered = ask.max_tokens != 0;
  q->keeps_ids = ask.token_ids;
  q->voice = voice;
  if (q->prompt.prompt_scores) q->scored = {{.token = q->prompt.ids[0], .scored = false}};
  return q;
}

QuestionList Api::questions(Ask& ask, const VoicePtr& voice, AnsweringRules& rules) {
  const Voice& v = *voice;
  if (ask.echo && answerer_.reads_sources())
    throw ApiError(400, "echo: an encoder-decoder's answers do not continue the prompt", "echo");
  QuestionList all;
  const auto add = [&](const std::vector<std::int32_t>& ids) {
    rules.prompt_tokens += std::ssize(ids);
    for (std::int64_t copy = 0; copy < ask.n; ++copy) all.push_back(question(ask, voice, ids, copy));
  };
  if (ask.chat) add(conversation(ask, v));
  for (const AskedText& asked : ask.prompts) {
    const std::vector<std::int32_t> ids = ids_of(asked, v);
    add(ids);
    if (!ask.echo) continue;
    const std::string text = asked.ids ? v.tokenizer->decode(ids, true) : asked.text;
    rules.echoes.insert(rules.echoes.end(), static_cast<std::size_t>(ask.n), text);
  }
  return all;
}

void Api::require_json(const HttpRequest& r) const {
  if (r.too_large) throw ApiError(413, str("a request has at most ", rules_.body, " bytes"));
  if (!r.content_type.starts_with("application/json"))
    throw ApiError(415, "the body is JSON: Content-Type: application/json");
}

// Loads or unloads an adapter. The replies are vLLM's.
HttpReply Api::change_adapters(const HttpRequest& r, bool load) {
  require_json(r);
  const AdapterChange change = read_adapter_change(r.body, load);
  if (load)
    slots_.load(change.name, change.folder, change.in_place);
  else
    slots_.unload(change.name);
  return {.body = str("Success: LoRA adapter '", printable(change.name, 100), "' ",
                      load ? "added" : "removed", " successfully."),
          .type = "text/plain"};
}

HttpReply Api::complete(const HttpRequest& r, bool chat) {
  require_json(r);
  Ask ask = read_ask(r.body, chat, answerer_.config.generation);
  const VoicePtr asked_of = voice(ask.model);
  const Voice& v = *asked_of;
  AnsweringRules rules{.frame = {chat, new_id(chat), v.name, std::time(nullptr)},
                       .tokenizer = v.tokenizer,
                       .logprobs = ask.logprobs.has_value(),
                       .likeliest = ask.logprobs.value_or(0) > 0,
                       .token_ids = ask.token_ids,
                       .usage_at_end = ask.usage_at_end};
  const QuestionList asked = questions(ask, asked_of, rules);
  rules.tools = std::move(ask.tools);
  if (!desk_.ask(asked)) {
    if (desk_.closed()) throw ApiError(503, "the server is shutting down");
    throw ApiError(429, "too many requests are waiting; try again later");
  }
  const auto on_done = [this, name = v.name](const std::string& finish, const Usage& usage, double seconds) {
    on_done_({name, finish, usage, seconds});
  };
  auto answering = std::make_shared<Answering>(desk_, asked, std::move(rules), on_done);
  if (!ask.stream) return {.body = answering->whole(r.gone)};
  return {.next = [answering, gone = r.gone] { return answering->next(gone); }};
}

std::string Api::new_id(bool chat) {
  constexpr std::size_t kDigits = 24;
  return (chat ? "chatcmpl-" : "cmpl-") + sha256(str(run_, ' ', asked_++)).substr(0, kDigits);
}

}  // namespace ft
