#include "data/chat/trained_chat.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/chat/chat_sample.h"
#include "data/chat/reasoning.h"
#include "data/chat/said_parts.h"
#include "engine/core/error.h"

namespace ft {
namespace {

// Returns the usual name of a role that templates spell otherwise.
std::string usual_role(const std::string& role) {
  if (role == "human") return "user";
  return role == "gpt" || role == "model" ? "assistant" : role;
}

// Returns the text of a content: a text, or a list of parts that are texts.
std::string text_of(const Json& message, const std::string& where, const Place& at) {
  const Json* content = member(message, "content");
  if (!content) at.fail(where + ": no content");
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  if (!content->is_array()) at.fail(str(where, ".content: must be a string, is ", json_excerpt(*content)));
  for (const Json& part : *content) {
    const Json* words = part.is_object() ? member(part, "text") : nullptr;
    if (!words || !words->is_string())
      at.fail(str(where, ".content: has a part that is not text: ", json_excerpt(part)));
    text += words->get<std::string>();
  }
  return text;
}

// Returns a message in the form of ft's formats.
ChatMessage plain(const Json& message, const std::string& where, const Place& at) {
  if (const Json* calls = member(message, "tool_calls"); calls && !calls->empty())
    at.fail(where + ".tool_calls: ft's chat formats do not support tool calls");
  return {usual_role(message.at("role").get<std::string>()), text_of(message, where, at)};
}

bool is_role_trained(const std::string& role, const DataConfig& config) {
  const auto& roles = config.roles_to_train;
  return std::any_of(roles.begin(), roles.end(), [&](ChatRole r) { return role == name_of(r); });
}

std::string roles_of(const DataConfig& config) {
  std::string list;
  for (const ChatRole role : config.roles_to_train) list += str(list.empty() ? "" : ", ", name_of(role));
  return list.empty() ? "none" : list;
}

// Messages' parts that say themselves if they are trained; by message, empty: it has none.
std::vector<SaidParts> parts_of(const ChatTurns& turns, const Place& at) {
  std::vector<SaidParts> all;
  for (std::size_t i = 0; i < turns.messages.size(); ++i)
    all.push_back(said_parts(turns.messages[i], str(printable(turns.list), "[", i, "]"), at));
  return all;
}

// Returns, for each message, true if data.roles_to_train and data.mask_history train it.
std::vector<bool> trained_by_role(const ChatTurns& turns, const DataConfig& config) {
  std::vector<bool> all(turns.messages.size());
  bool later = false;  // a later message is trained
  for (std::size_t i = all.size(); i-- > 0;) {
    const bool own = is_role_trained(usual_role(turns.messages[i].at("role").get<std::string>()), config);
    all[i] = own && !(later && config.mask_history);
    later |= own;
  }
  return all;
}

// A conversation's trained messages, and parts of messages.
struct Choice {
  WantedTurns wanted;
  std::vector<SaidParts> parts;  // by message
  std::vector<bool> usual;       // by message: its parts that say nothing are trained

  Choice(const ChatTurns& turns, const SaidTrained& said, const DataConfig& config, const Place& at)
      : wanted{{}, {}, config.train_on_inputs, config.train_on_eos == TrainOnEos::all},
        parts(parts_of(turns, at)) {
    const std::vector<bool> by_role = trained_by_role(turns, config);
    wanted.last_only = config.mask_history;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string role = usual_role(turns.messages[i].at("role").get<std::string>());
      const bool history = is_role_trained(role, config) && !by_role[i];
      wanted.trained.push_back(said[i].value_or(by_role[i]));
      wanted.kept_out.push_back(!said[i].value_or(!history));
      usual.push_back(said[i].value_or(by_role[i] || wanted.inputs));
      if (!parts[i].empty()) choose_by_parts(i);
    }
  }

  // Returns the stretches of the written text that parts keep out.
  std::vector<LeftOut> left_out(std::span<const ChatPart> written, TrainOnEos ends) const {
    std::vector<LeftOut> all;
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (!parts[i].empty() && wanted.trained[i])
        std::ranges::copy(kept_out_by_parts(written, i, parts[i], usual[i], ends != TrainOnEos::all),
                          std::back_inserter(all));
    return all;
  }

 private:
  void choose_by_parts(std::size_t i) {
    const bool any =
        std::ranges::any_of(parts[i], [&](const SaidPart& part) { return part.trained.value_or(usual[i]); });
    wanted.trained[i] = any;
    wanted.kept_out[i] = !any;
    wanted.located |= any;
  }
};

// Returns the reason why a conversation has no targets.
std::string reason(const ChatTurns& turns, const WantedTurns& wanted, const TrainedTurns& found, bool marks,
                   const DataConfig& config) {
  const auto first = [](const std::vector<bool>& list) {  // from 1; 0: none
    const auto set = std::find(list.begin(), list.end(), true);
    return set == list.end() ? 0 : set - list.begin() + 1;
  };
  const std::string roles = str("data.roles_to_train: ", roles_of(config));
  // Names the last with data.mask_history, which keeps earlier ones out too.
  const auto& out = wanted.kept_out;
  const auto kept_out =
      config.mask_history ? out.rend() - std::find(out.rbegin(), out.rend(), true) : first(out);
  if (first(wanted.trained) == 0 && kept_out > 0)
    return str("message ", kept_out, " has \"weight\": 0 or \"train\": false, and no other has a ",
               "role that is trained (", roles, ")");
  if (first(wanted.trained) == 0)
    return str("none of its ", turns.messages.size(), " messages has a role that is trained (", roles, ")");
  if (!found.lost.empty())
    return str("message ", found.lost.front(), ": the chat template writes it in another way when more ",
               "messages follow, or not at all");
  if (wanted.located || config.ignore_empty_think)
    return str("message ", first(wanted.trained),
               ": it is empty, or its parts or data.ignore_empty_think leave nothing of it to train on");
  return str("message ", first(wanted.trained),
             marks ? ": the chat template's {% generation %} blocks do not contain it" : ": it is empty");
}

// Throws UserError (input) for a message of an unusual role that the template ignores: its content does not
// change the text.
void require_written(const TurnWriter& writer, const ChatTurns& turns) {
  static constexpr std::array kUsual{"system", "user", "assistant", "tool"};
  for (std::size_t i = 0; i < turns.messages.size(); ++i) {
    const std::string role = turns.messages[i].at("role").get<std::string>();
    if (std::find(kUsual.begin(), kUsual.end(), role) != kUsual.end()) continue;
    ChatTurns other = turns;
    other.messages[i]["content"] = "another content";
    if (writer.text(other) == writer.text(turns))
      throw std::invalid_argument(str("message ", i + 1, ": the chat template leaves out messages of role \"",
                                      printable(role, 40), "\""));
  }
}

}  // namespace

const Json* member(const Json& object, const std::string& name) {
  for (const auto& [key, value] : *object.get_ptr<const Json::object_t*>())
    if (key == name) return value.is_null() ? nullptr : &value;
  return nullptr;
}

std::optional<bool> said_trained(const Json& message, const std::string& where, const Place& at) {
  if (const Json* train = member(message, "train")) {
    if (!train->is_boolean()) at.fail(where + ".train: must be true or false, is " + json_excerpt(*train));
    return train->get<bool>();
  }
  if (const Json* weight = member(message, "weight")) {
    if (*weight != 0 && *weight != 1) at.fail(where + ".weight: must be 0 or 1, is " + json_excerpt(*weight));
    return *weight == 1;
  }
  return std::nullopt;
}

void require_no_choice(const ChatTemplate& chat, const DataConfig& config) {
  if (!chat.marks()) return;
  const char* why =
      "the chat template's {% generation %} blocks choose the trained tokens; leave it at its default";
  if (config.roles_to_train != DataConfig().roles_to_train)
    throw UserError(Exit::config, str("data.roles_to_train: ", why));
  if (config.train_on_eos != DataConfig().train_on_eos)
    throw UserError(Exit::config, str("data.train_on_eos: ", why));
}

ChatTurns arranged(const ChatTurns& given, const ChatTemplate& chat, const DataConfig& config) {
  ChatTurns turns = given;
  std::vector<Json>& messages = turns.messages;
  const std::string where;
  const Place nowhere{&where};
  std::vector<bool> joined(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i)
    if (const SaidParts parts = said_parts(messages[i], "", nowhere); !parts.empty()) {
      messages[i]["content"] = joined_text(parts);
      joined[i] = true;
    }
  if (!config.reasoning_content) return turns;
  const std::vector<Json> before = messages;
  arrange_reasoning(messages, *config.reasoning_content,
                    chat.format() ? "" : chat.writer(turns.with).reasoning_key());
  for (std::size_t i = 0; i < messages.size(); ++i)
    if (joined[i] && messages[i]["content"] != before[i]["content"])
      throw std::invalid_argument(str("message ", i + 1,
                                      ": data.reasoning_content would change its content, ",
                                      "whose parts have \"train\" or \"weight\"; take one of them out"));
  return turns;
}

Sample trained_chat(const ChatTemplate& chat, const DataConfig& config, const TextSampleBuilder& builder,
                    const ChatTurns& given, const SaidTrained& said, const Place& at) {
  const Choice choice(given, said, config, at);
  const WantedTurns& wanted = choice.wanted;
  const ChatTurns turns = arranged(given, chat, config);
  WrittenChat written;
  if (const ChatFormat* format = chat.format()) {
    require_plain(turns.with);
    std::vector<ChatMessage> messages;
    for (std::size_t i = 0; i < turns.messages.size(); ++i)
      messages.push_back(plain(turns.messages[i], str(printable(turns.list), "[", i, "]"), at));
    written.parts = render_chat(*format, messages, builder.tokenizer());
  } else {
    written = chat.writer(turns.with).write(turns, wanted);
    require_written(chat.writer(turns.with), turns);
  }
  Sample out = make_chat_sample(written.parts, wanted, config, builder, at,
                                choice.left_out(written.parts, config.train_on_eos));
  out.turns.lost = std::move(written.lost);
  out.turns.unopened = std::move(written.unopened);
  if (count_targets(out.labels) == 0)
    out.turns.nothing = reason(turns, wanted, out.turns, chat.marks(), config);
  return out;
}

}  // namespace ft
