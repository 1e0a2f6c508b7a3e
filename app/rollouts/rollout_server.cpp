#include "app/rollouts/rollout_server.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "engine/files/json.h"

namespace ft {
namespace {

constexpr const char *kCompletions = "/v1/completions", *kModels = "/v1/models",
                     *kLoad = "/v1/load_lora_adapter", *kUnload = "/v1/unload_lora_adapter";
constexpr std::size_t kAtOnce = 32;                       // requests
constexpr std::int64_t kListing = std::int64_t{4} << 20;  // bytes of a reply without answers
constexpr std::int64_t kOfToken = 1024;                   // bytes of a token in a reply

// Returns the most bytes of a reply with these answers.
std::int64_t most_bytes(const AskedPrompt& p) {
  return kListing + kOfToken * (p.count * p.most + std::ssize(p.ids));
}

Json parsed(const std::string& body) {
  JsonRules rules;
  rules.max_bytes = body.size() + 1;
  rules.unique_keys = false;
  try {
    return parse_json(body, {"the reply"}, rules);
  } catch (const UserError& wrong) {
    throw std::invalid_argument(str(wrong.what(), ": ", printable(body, 100)));
  }
}

const Json& field(const Json& object, const char* name) {
  const auto at = object.is_object() ? object.find(name) : object.end();
  if (at == object.end()) throw std::invalid_argument(str("the reply has no ", name));
  return *at;
}

ServerClient::Clock::time_point deadline(const ServerAccess& access) {
  constexpr double kMost = 1e8;  // seconds, which a clock can count
  return ServerClient::Clock::now() + std::chrono::duration_cast<ServerClient::Clock::duration>(
                                          std::chrono::duration<double>(std::min(access.seconds, kMost)));
}

// Reads a token's id from "token_id:12".
std::optional<std::int64_t> id_of(const Json& name) {
  constexpr std::string_view kBefore = "token_id:";
  constexpr std::size_t kMostDigits = 10;
  if (!name.is_string()) return {};
  const std::string text = name.get<std::string>();
  const std::string digits = text.starts_with(kBefore) ? text.substr(kBefore.size()) : "";
  if (digits.empty() || digits.size() > kMostDigits ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    return {};
  return std::stoll(digits);
}

// Returns the ids that `token_ids` lists, else those in the tokens' names.
std::vector<std::int64_t> ids_of(const Json& choice, const Json& names) {
  const auto given = choice.find("token_ids");
  const bool listed = given != choice.end() && given->is_array();
  const auto refuse = [] {
    throw std::invalid_argument(
        "the reply has no token ids (return_token_ids); vLLM from 0.10.2 and ft serve give them");
  };
  if (!listed && names.empty()) refuse();
  std::vector<std::int64_t> ids;
  for (const Json& one : listed ? *given : names) {
    const std::optional<std::int64_t> id = !listed                   ? id_of(one)
                                           : one.is_number_integer() ? std::optional(one.get<std::int64_t>())
                                                                     : std::nullopt;
    if (!id) refuse();
    ids.push_back(*id);
  }
  return ids;
}

std::vector<double> logps_of(const Json& logprobs) {
  std::vector<double> all;
  for (const Json& one : field(logprobs, "token_logprobs")) {
    constexpr double kAboveZero = 1e-2;  // of rounding in 16 bits
    if (!one.is_number() || one.get<double>() > kAboveZero)
      throw std::invalid_argument("a token's log-probability is " + json_excerpt(one));
    all.push_back(one.get<double>());
  }
  return all;
}

// Throws unless an answer ends where one may end.
void check_end(const std::vector<std::int32_t>& ids, const std::string& finish, std::int64_t most,
               std::span<const std::int32_t> ends) {
  const auto ends_at = [&](std::int32_t id) { return std::ranges::find(ends, id) != ends.end(); };
  if (std::any_of(ids.begin(), ids.end() - 1, ends_at))
    throw std::invalid_argument("an answer goes on behind its end token");
  if (ends_at(ids.back()) || std::ssize(ids) == most) return;
  throw std::invalid_argument(
      str("an answer of ", ids.size(), " tokens has no end token and fewer than ", most,
          " tokens (finish_reason ", printable(finish, 30),
          "): the server's context is too short (vLLM: --max-model-len, ft serve: generation.max_length), or "
          "its model ends answers with other tokens"));
}

void add_choice(const Json& choice, const AskedPrompt& p, std::span<const std::int32_t> ends,
                std::int64_t vocab_size, SampledAnswers& all) {
  const Json& logprobs = field(choice, "logprobs");
  if (!logprobs.is_object()) throw std::invalid_argument("the reply has no logprobs");
  const Json none = Json::array(), names = logprobs.value("tokens", none);
  const std::vector<std::int64_t> ids = ids_of(choice, names);
  const std::vector<double> logps = logps_of(logprobs);
  if (ids.empty() || std::ssize(ids) > p.most)
    throw std::invalid_argument(
        str("an answer of ", ids.size(), " tokens; 1 to ", p.most, " were asked for"));
  if (ids.size() != logps.size())
    throw std::invalid_argument(
        str("an answer has ", ids.size(), " tokens and ", logps.size(), " log-probabilities"));
  std::vector<std::int32_t> tokens;
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= vocab_size)
      throw std::invalid_argument(str("token ", id, "; the model's are 0 to ", vocab_size - 1));
    tokens.push_back(static_cast<std::int32_t>(id));
  }
  const Json& finish = field(choice, "finish_reason");
  check_end(tokens, finish.is_string() ? finish.get<std::string>() : json_excerpt(finish), p.most, ends);
  const Json& index = field(choice, "index");
  const std::int64_t at = index.is_number_integer() ? index.get<std::int64_t>() : -1;
  if (at < 0 || at >= p.count || !all.tokens[static_cast<std::size_t>(at)].empty())
    throw std::invalid_argument(str("the answers' indexes are not 0 to ", p.count - 1));
  all.tokens[static_cast<std::size_t>(at)] = std::move(tokens);
  all.logps[static_cast<std::size_t>(at)] = logps;
}

// Runs work(i) for 0 <= i < n in several threads, each with a client. After an error no more work begins, and
// the first error is thrown. `stop` ends the work that runs, too.
void in_threads(std::size_t n, const std::function<bool()>& stop,
                const std::function<void(std::size_t i, const std::function<bool()>& stop)>& work) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr first;
  std::mutex mutex;
  const std::function<bool()> over = [&] { return failed || (stop && stop()); };
  const auto run = [&] {
    for (std::size_t i = 0; !failed && (i = next++) < n;) try {
        work(i, over);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failed) first = std::current_exception();
        failed = true;
      }
  };
  std::vector<std::thread> threads;
  try {
    while (threads.size() + 1 < std::min(n, kAtOnce)) threads.emplace_back(run);
  } catch (const std::system_error&) {  // this process may have no more threads; those that began do the work
  }
  run();
  for (std::thread& t : threads) t.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace

SampledAnswers read_completions(const std::string& body, const AskedPrompt& p,
                                std::span<const std::int32_t> end_tokens, std::int64_t vocab_size) {
  const Json reply = parsed(body);
  const Json& choices = field(reply, "choices");
  if (!choices.is_array() || std::ssize(choices) != p.count)
    throw std::invalid_argument(str("the reply has ", choices.is_array() ? choices.size() : 0, " answers; ",
                                    p.count, " were asked for"));
  SampledAnswers all;
  all.tokens.resize(choices.size());
  all.logps.resize(choices.size());
  for (const Json& choice : choices) add_choice(choice, p, end_tokens, vocab_size, all);
  return all;
}

std::vector<std::string> RolloutServer::models() const {
  ServerClient client(rules_.access, deadline(rules_.access));
  const std::string body = client.get(kModels, kListing);
  try {
    const Json reply = parsed(body);
    std::vector<std::string> names;
    for (const Json& model : field(reply, "data")) {
      const Json& name = field(model, "id");
      if (!name.is_string()) throw std::invalid_argument("a model has no name");
      names.push_back(name.get<std::string>());
    }
    if (names.empty()) throw std::invalid_argument("the server lists no model");
    return names;
  } catch (const std::invalid_argument& wrong) {
    client.fail(Exit::input, str(kModels, ": ", wrong.what()));
  }
}

void RolloutServer::load_adapter(const std::string& name, const std::string& folder) const {
  ServerClient client(rules_.access, deadline(rules_.access));
  try {
    client.post(kLoad, json_text({{"lora_name", name}, {"lora_path", folder}}, -1), kListing);
  } catch (const ServerRefused& refused) {
    if (refused.status == 404 || refused.status == 405)
      throw UserError(Exit::config,
                      str(refused.what(),
                          "\n  it loads no adapters: start ft serve with --max-loras 1, or vLLM "
                          "with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"));
    throw UserError(refused.code, str(refused.what(), "\n  it must see the run's folder as ", folder,
                                      ", and allow the adapter's rank (--max-lora-rank)"));
  }
}

void RolloutServer::unload_adapter(const std::string& name, double seconds) const {
  ServerAccess access = rules_.access;
  access.seconds = std::min(access.seconds, seconds);
  ServerClient client(access, deadline(access));
  try {
    client.post(kUnload, json_text({{"lora_name", name}}, -1), kListing);
  } catch (const ServerRefused& refused) {
    if (refused.status != 404 && refused.status != 400) throw;
  }
}

std::string RolloutServer::body_of(const std::string& model, const AskedPrompt& p) const {
  const GenerationConfig& g = rules_.sampling;
  return json_text({{"model", model},
                    {"prompt", std::vector<std::int32_t>(p.ids.begin(), p.ids.end())},
                    {"n", p.count},
                    {"max_tokens", p.most},
                    {"seed", p.seed},
                    {"temperature", g.temperature},
                    {"top_p", g.top_p},
                    {"top_k", g.top_k > 0 ? g.top_k : -1},
                    {"min_p", g.min_p.value_or(0)},
                    {"repetition_penalty", g.repetition_penalty},
                    {"logprobs", 1},
                    {"return_token_ids", true},
                    {"stop_token_ids", rules_.end_tokens}},
                   -1);
}

SampledAnswers RolloutServer::ask(ServerClient& client, const std::string& model,
                                  const AskedPrompt& p) const {
  const std::string body = client.post(kCompletions, body_of(model, p), most_bytes(p));
  try {
    return read_completions(body, p, rules_.end_tokens, rules_.vocab_size);
  } catch (const std::invalid_argument& wrong) {
    client.fail(Exit::input, str(kCompletions, ": ", wrong.what()));
  } catch (const nlohmann::json::exception& wrong) {
    client.fail(Exit::input, str(kCompletions, ": ", wrong.what()));
  }
}

SampledAnswers RolloutServer::answers(const std::string& model, std::span<const AskedPrompt> prompts,
                                      const std::function<bool()>& stop) const {
  const auto until = deadline(rules_.access);
  std::vector<SampledAnswers> each(prompts.size());
  in_threads(prompts.size(), stop, [&](std::size_t i, const std::function<bool()>& over) {
    ServerClient client(rules_.access, until, over);
    each[i] = ask(client, model, prompts[i]);
  });
  SampledAnswers all;
  for (SampledAnswers& one : each) {
    std::ranges::move(one.tokens, std::back_inserter(all.tokens));
    std::ranges::move(one.logps, std::back_inserter(all.logps));
  }
  return all;
}

}  // namespace ft
