// Chooses the format of rows: the list of all formats, and their detection by the names of columns.
#include "data/rows/format.h"

#include <algorithm>

#include "engine/core/error.h"

namespace ft {
namespace {

// What `columns` may rename. Of Parquet and Arrow files only these, and what is beside them, are read.
std::vector<std::string_view> columns_of(RowType type) {
  switch (type) {
    case RowType::tokenized:
      return {"input_ids", "labels", "attention_mask"};
    case RowType::prompt_completion:
      return {"prompt", "completion", "response", "tools", "chat_template_kwargs"};
    case RowType::alpaca:
      return {"instruction", "input", "output"};
    case RowType::messages:
      return {"messages", "tools", "documents", "chat_template_kwargs"};
    case RowType::sharegpt:
      return {"conversations", "tools", "documents", "chat_template_kwargs"};
    case RowType::translation:
      return {"translation"};
    case RowType::preference_chosen:
      return {"prompt", "chosen", "rejected", "tools", "chat_template_kwargs"};
    case RowType::preference:
      return {"prompt", "chosen", "rejected", "margin", "tools", "chat_template_kwargs"};
    case RowType::kto:
      return {"prompt", "completion", "label", "tools", "chat_template_kwargs"};
    case RowType::preference_tokenized:
      return {"prompt_ids", "chosen_ids", "rejected_ids", "margin"};
    case RowType::kto_tokenized:
      return {"prompt_ids", "completion_ids", "label"};
    case RowType::rollouts_tokenized:
      return {"prompt_ids", "completion_ids", "reward", "old_logps"};
    case RowType::prompts:
      return {"prompt", "answer", "tools", "chat_template_kwargs"};
    case RowType::prompts_tokenized:
      return {"prompt_ids", "answer"};
    case RowType::text:
      return {"text"};
    case RowType::detected:
      break;
  }
  require(false, "rows of no type");
  return {};
}

// Adds the columns that rows of a type may have to those that the format has picked by their names.
void add_columns(Format& format, RowType type, const DatasetConfig& dataset) {
  const bool picks = !format.columns.empty();
  for (const std::string_view name : columns_of(type))
    if (!picks || (name != "prompt" && name != "completion" && name != "response"))
      format.columns.push_back(column(dataset, std::string(name)));
  if (type == RowType::sharegpt) format.columns.emplace_back("system");
}

// "a, b, c"
std::string listed(const auto& names) {
  std::string list;
  for (const auto& name : names) list += str(list.empty() ? "" : ", ", name);
  return list;
}

RowKind kind_of(RowType type) {
  using enum RowType;
  if (type == preference || type == preference_tokenized) return RowKind::pair;
  if (type == rollouts_tokenized) return RowKind::rollout;
  if (type == prompts || type == prompts_tokenized) return RowKind::prompt;
  return type == kto || type == kto_tokenized ? RowKind::labelled : RowKind::example;
}

bool contains(std::span<const std::string> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The first type, in a fixed order, whose fields the row has.
RowType detect(const FormatContext& context, std::span<const std::string> names, const Place& at) {
  const auto has = [&](const char* name) { return contains(names, column(context.dataset, name)); };
  const auto any = [&](std::initializer_list<const char*> list) {
    return std::any_of(list.begin(), list.end(), has);
  };
  if (context.rows.kind == RowKind::prompt && has("prompt_ids")) return RowType::prompts_tokenized;
  if (context.rows.kind == RowKind::prompt && any({"prompt", "question", "instruction"}))
    return RowType::prompts;
  if (has("chosen_ids") && has("rejected_ids")) return RowType::preference_tokenized;
  if (has("completion_ids") && has("label")) return RowType::kto_tokenized;
  if (has("completion_ids") && has("reward")) return RowType::rollouts_tokenized;
  if (context.rows.kind == RowKind::pair && has("chosen") && has("rejected")) return RowType::preference;
  if (context.rows.kind == RowKind::labelled && has("completion") && has("label")) return RowType::kto;
  if (has("input_ids")) return RowType::tokenized;
  if (has("messages")) return RowType::messages;
  if (has("conversations")) return RowType::sharegpt;
  if (has("chosen") && has("rejected")) return RowType::preference_chosen;
  if (any({"prompt", "question"}) && any({"completion", "response", "answer"}))
    return RowType::prompt_completion;
  if (has("instruction") && has("output")) return RowType::alpaca;
  if (has("translation")) return RowType::translation;
  if (has("text")) return RowType::text;
  std::vector<std::string> shown, types;
  for (const auto& name : names) shown.push_back(printable(name, 40));
  for (const auto& [_, word] : words(RowType{})) types.emplace_back(word);
  at.fail(str("cannot tell the type of the rows from the names of their fields: ",
              names.empty() ? "none" : listed(shown), ". Set ", context.setting, ".type (", listed(types),
              ") and ", context.setting, ".columns"));
}

const char* rows_of(RowKind kind) {
  if (kind == RowKind::pair) return "pairs of answers: preference, preference_tokenized";
  if (kind == RowKind::labelled) return "answers with a label: kto, kto_tokenized";
  if (kind == RowKind::prompt) return "prompts, where rewards are set: prompts, prompts_tokenized";
  return kind == RowKind::rollout ? "answers with a reward: rollouts_tokenized" : "examples";
}

void require_kind(const FormatContext& context, RowType type) {
  if (kind_of(type) == context.rows.kind) return;
  const char* hint = type == RowType::preference ? "; preference_chosen trains on the chosen answers" : "";
  throw UserError(Exit::config,
                  str(context.setting, ".type: objective.type ", context.rows.objective, " is for ",
                      rows_of(context.rows.kind), "; these rows are of type ", name_of(type), hint));
}

// The settings of chat templates, where no row of the run can have one.
void require_chats(const FormatContext& context, RowType type, std::span<const std::string_view> columns) {
  for (const std::string_view name : context.chat_settings())
    if (std::find(columns.begin(), columns.end(), name) == columns.end())
      throw UserError(Exit::config, str("data.", name, ": has no effect on rows of type ", name_of(type),
                                        " (", context.setting, "), which are no conversations; take it out"));
}

std::unique_ptr<Format> format_of(RowType type, const FormatContext& context,
                                  std::span<const std::string> names) {
  if (type == RowType::preference || type == RowType::kto) return make_answers_format(context, names);
  if (kind_of(type) == RowKind::prompt)
    return make_prompts_format(context, names, type == RowType::prompts_tokenized);
  if (kind_of(type) != RowKind::example) return make_tokenized_answers_format(context);
  if (type == RowType::tokenized) return make_tokenized_format(context);
  if (type == RowType::text) return make_text_format(context);
  if (type == RowType::alpaca) return make_alpaca_format(context);
  if (type == RowType::translation) return make_translation_format(context);
  if (type == RowType::messages || type == RowType::sharegpt)
    return make_chat_format(context, type == RowType::sharegpt);
  return make_prompt_format(context, names, type == RowType::preference_chosen);
}

}  // namespace

std::unique_ptr<Format> make_format(const FormatContext& context, std::span<const std::string> names,
                                    const Place& at) {
  const RowType type =
      context.dataset.type == RowType::detected ? detect(context, names, at) : context.dataset.type;
  require_kind(context, type);
  const std::vector<std::string_view> columns = columns_of(type);
  require_chats(context, type, columns);
  for (const auto& [ours, theirs] : context.dataset.columns)
    if (std::find(columns.begin(), columns.end(), ours) == columns.end())
      throw UserError(Exit::config, str(context.setting, ".columns.", printable(ours), ": rows of type ",
                                        name_of(type), " have no such column; they have ", listed(columns)));
  const bool chat = type == RowType::messages || type == RowType::sharegpt;
  if (context.seq2seq && (type == RowType::text || chat))
    throw UserError(Exit::config,
                    str(context.setting, ": rows of type ", name_of(type),
                        " have no source and target, which an encoder-decoder needs; it takes "
                        "prompt_completion, alpaca, translation, preference_chosen and tokenized"));
  std::unique_ptr<Format> format = format_of(type, context, names);
  format->type = name_of(type);
  add_columns(*format, type, context.dataset);
  if (kind_of(type) == RowKind::prompt) format->columns.assign(names.begin(), names.end());
  return format;
}

}  // namespace ft
