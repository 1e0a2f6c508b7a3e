#include "app/answers/asking.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "app/files/model_files.h"
#include "data/batches/kept_prompts.h"
#include "data/chat/chat_format.h"
#include "data/chat/chat_inputs.h"
#include "data/rows/alpaca_rows.h"

namespace ft {
namespace {

constexpr const char* kNone = "none";  // data.chat_template: no template

// Returns how rows were written in training, and puts the folder's chat template into `data`. Settings of the
// command line override the folder's.
Written take_kept(const std::string& folder, DataConfig& data) {
  if (data.chat_template == kNone) {
    data.chat_template.reset();
    return Written::plain;
  }
  if (data.chat_template) return Written::chat;
  const auto kept = read_kept_prompts(folder);
  if (!kept || kept->written != Written::chat) return kept ? kept->written : Written::unknown;
  data.chat_template = kept->chat_template;
  if (!kept->kwargs.empty())
    data.chat_template_kwargs.text =
        json_text(template_kwargs(Json::parse(kept->kwargs), usual_template_kwargs(data)), -1);
  return Written::chat;
}

// Returns the folder of a tokenizer, which is given as a folder or as a file.
std::string place_of(const std::string& tokenizer) {
  std::error_code none;
  return std::filesystem::is_directory(tokenizer, none) ? tokenizer : folder_of(tokenizer);
}

// Returns the adapter's folder if it records how rows were written, else the tokenizer's.
std::string kept_in(const Answerer& a) {
  const auto& adapter = a.config.lora.adapter_name_or_path;
  if (adapter && path_exists(join_path(*adapter, kPromptsFile))) return *adapter;
  return place_of(a.config.model.tokenizer());
}

}  // namespace

Asking::Asking(const Answerer& a) : Asking(a, kept_in(a), a.config.model.tokenizer(), a.text()) {}

Asking::Asking(const Answerer& a, const std::string& folder, const std::string& tokenizer_path,
               const Tokenizer& tokenizer)
    : answerer_(a),
      tokenizer_(tokenizer),
      plain_{a.end_tokens, a.config.generation.stop_strings.value_or(std::vector<std::string>{})},
      turn_(plain_) {
  if (a.reads_sources()) {
    if (a.config.data.chat_template && a.config.data.chat_template != kNone)
      throw UserError(Exit::config,
                      "data.chat_template: an encoder-decoder reads one text at a time, without turns");
    return;
  }
  DataConfig data = a.config.data;
  written_ = take_kept(folder, data);
  const bool own = written_ == Written::unknown && holds_chat_template(tokenizer_path);
  if (written_ != Written::chat && !own) return;
  try {
    chat_.emplace(data, tokenizer_path, tokenizer);
  } catch (const UserError& wrong) {
    if (!own) throw;
    unreadable_ = wrong;
    return;
  }
  turn_.add(chat_->end(), tokenizer);
}

bool Asking::has_turns() const {
  if (unreadable_) throw UserError(*unreadable_);
  return chat_.has_value();
}

std::string Asking::origin() const {
  const auto& setting = answerer_.config.data.chat_template;
  if (!setting) return is_known() ? "as in training" : "with the model's own chat template";
  if (*setting == kNone) return "with data.chat_template=none";
  if (chat_format_by_name(*setting)) return "in the chat format " + *setting;
  const bool given = setting->ends_with(".jinja") || setting->find('{') != std::string::npos;
  return given ? "with the template of data.chat_template"
               : str("with the model's own chat template \"", printable(*setting, 60), "\"");
}

std::vector<std::int32_t> Asking::conversation(ChatTurns turns) const {
  if (has_turns()) return chat_->prompt(std::move(turns));
  const auto messages = plain_messages(turns.messages);
  if (!messages || messages->size() != 1 || messages->front().role != "user" || !turns.with.tools.is_null())
    throw std::invalid_argument(
        str("this model answers ", written_ == Written::alpaca ? "instructions" : "prompts",
            " without turns; ask with one user message, or set data.chat_template=NAME"));
  return question(messages->front().content);
}

std::vector<std::int32_t> Asking::question(const std::string& text) const {
  if (written_ == Written::alpaca) return answerer_.ids_of(alpaca_prompt(text, ""), tokenizer_);
  if (written_ != Written::chat) return answerer_.ids_of(text, tokenizer_);
  ChatTurns turns;
  say(turns, "user", text);
  return chat_->prompt(std::move(turns));
}

std::vector<std::int32_t> Asking::instruction(const std::string& text, const std::string& input) const {
  if (!is_known() || written_ == Written::alpaca)
    return answerer_.ids_of(alpaca_prompt(text, input), tokenizer_);
  return question(text + (input.empty() ? "" : "\n" + input));
}

std::vector<std::int32_t> end_tokens_of_rows(const std::string& folder, const RunConfig& config,
                                             const Tokenizer& tokenizer, Written written) {
  AnswerEnds ends{end_tokens(folder, &tokenizer), {}};
  if (written == Written::chat)
    ends.add(ChatReader(config.data, config.model.tokenizer(), tokenizer).end(), tokenizer);
  return ends.tokens;
}

}  // namespace ft
