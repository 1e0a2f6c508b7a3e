#include "app/answers/questions.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "data/chat/chat_inputs.h"
#include "data/chat/rendered_chat.h"
#include "data/files/json_row.h"
#include "data/files/row_reader.h"
#include "engine/core/utf8.h"

namespace ft {
namespace {

class Reader {
 public:
  explicit Reader(const Answerer& a) : answerer_(a), questions_(std::make_unique<Questions>()) {
    if (!a.tokenizer) return;
    questions_->asking.emplace(a);
    questions_->of_turns.emplace(a.config.generation, questions_->asking->chat_ends().tokens);
  }

  void add(Json row, const Place& at) {
    const auto has = [&](const char* key) { return row.contains(key) && !row[key].is_null(); };
    constexpr std::array kKinds{"input_ids", "prompt", "messages", "question", "instruction"};
    const auto* found = std::ranges::find_if(kKinds, has);
    if (found == kKinds.end() || (has("input_ids") && has("prompt")))
      at.fail(
          "a row needs prompt (a text or a list of messages), messages, question, instruction or input_ids "
          "(token ids), not both prompt and input_ids");
    const char* key = *found;
    const std::string name = key;
    if (name == "input_ids") {
      Tokenizer::Ids ids = ids_of(row[key], at);
      return finish(std::move(row), std::move(ids), false, at);
    }
    if (name == "messages" || row[key].is_array()) {
      Tokenizer::Ids ids = conversation(row, key, at);
      return finish(std::move(row), std::move(ids), asking().has_turns(), at);
    }
    if (!row[key].is_string())
      at.fail(str(key, " must be a text or a list of messages, is ", json_excerpt(row[key])));
    ask(std::move(row), key, at);
  }

  void ask(Json row, const char* key, const Place& at) {
    const auto& text = row[key].get_ref<const std::string&>();
    const Asking& asking = this->asking();
    Tokenizer::Ids ids;
    if (std::string(key) == "instruction") {
      const auto input = row.find("input");
      if (input != row.end() && !input->is_string() && !input->is_null())
        at.fail("input must be a text, is " + json_excerpt(*input));
      ids =
          asking.instruction(text, input != row.end() && input->is_string() ? input->get<std::string>() : "");
    } else {
      ids = asking.question(text);
      questions_->reworded =
          questions_->reworded || (asking.is_known() && asking.written() != Written::plain);
    }
    finish(std::move(row), std::move(ids), asking.written() == Written::chat, at);
  }

  std::unique_ptr<Questions> take() { return std::move(questions_); }

 private:
  const Asking& asking() const {
    answerer_.text();  // throws the reason if there is no tokenizer
    return *questions_->asking;
  }

  Tokenizer::Ids ids_of(const Json& value, const Place& at) const {
    const std::int64_t V = answerer_.built.model().vocab_size();
    if (!value.is_array()) at.fail("input_ids must be a list of token ids, is " + json_excerpt(value));
    Tokenizer::Ids ids;
    for (const Json& v : value) {
      const bool id = v.is_number_integer() && v >= 0 && v < V;
      if (!id) at.fail(str("input_ids has ", json_excerpt(v), "; the model's token ids are 0 to ", V - 1));
      ids.push_back(v.get<std::int32_t>());
    }
    return ids;
  }

  Tokenizer::Ids conversation(const Json& row, const char* key, const Place& at) const {
    if (answerer_.reads_sources())
      at.fail(str(key, ": this model reads one text at a time, without turns; give prompt as a text"));
    ChatTurns turns;
    turns.messages = read_messages(row[key], key, at);
    turns.bytes = json_text(row, -1).size();
    if (turns.messages.empty()) at.fail(str(key, ": no messages"));
    try {
      if (row.contains("tools")) turns.with.tools = read_tools(row["tools"], at);
      if (row.contains("documents")) turns.with.documents = row["documents"];
      if (row.contains("chat_template_kwargs"))
        turns.with.kwargs = template_kwargs({}, row["chat_template_kwargs"]);
      if (!asking().has_turns() && !asking().is_known())
        at.fail(str(key, ": the model has no chat template; set data.chat_template=NAME"));
      return asking().conversation(std::move(turns));
    } catch (const std::invalid_argument& wrong) {
      at.fail(str(key, ": ", printable(wrong.what())));
    }
  }
  static Json read_tools(const Json& value, const Place& at) {
    Json tools = value.is_string() ? parse_json(value.get<std::string>(), {*at.name, at.line}) : value;
    if (!tools.is_null() && !tools.is_array()) at.fail("tools must be a list, is " + json_excerpt(value));
    return tools;
  }

  void finish(Json row, Tokenizer::Ids ids, bool turn, const Place& at) {
    const std::int64_t V = answerer_.built.model().vocab_size();
    for (const std::int32_t id : ids)
      if (id >= V)
        at.fail(str("the tokenizer gives token ", id, " and the model has only ", V,
                    ": they do not belong together"));
    if (ids.empty()) at.fail("the prompt is empty: there is nothing to continue");
    Prompt p = answerer_.prompt_of(std::move(ids));
    const GenerationConfig& g = answerer_.config.generation;
    p.max_new_tokens = g.most(p.ids.size());
    if (p.max_new_tokens < 1)
      at.fail(str("the prompt has ", p.ids.size(), " tokens and generation.max_length is ", *g.max_length));
    p.number = questions_->prompts.size();
    if (turn) p.chooser = &*questions_->of_turns;
    questions_->prompts.push_back(std::move(p));
    questions_->rows.push_back(std::move(row));
    questions_->ends.push_back(!questions_->asking ? nullptr
                               : turn              ? &questions_->asking->chat_ends()
                                                   : &questions_->asking->plain_ends());
  }

  const Answerer& answerer_;
  std::unique_ptr<Questions> questions_;
};

}  // namespace

std::unique_ptr<Questions> read_questions(const std::string& file, const Answerer& a) {
  Reader reader(a);
  Place at{&file};
  const auto rows = open_rows({file, file});
  bool any = false;
  for (Row row; rows->next(row); any = true) {
    at.line = row.line;
    reader.add(read_row(row.text, at, NonFinite::null), at);
  }
  if (!any) throw UserError(Exit::input, printable(file) + ": has no rows");
  return reader.take();
}

std::unique_ptr<Questions> one_question(const std::string& text, const Answerer& a) {
  const std::string setting = "--prompt";
  Reader reader(a);
  if (text.empty()) throw UserError(Exit::config, "--prompt: it is empty");
  if (!is_utf8(text)) throw UserError(Exit::config, "--prompt: is not UTF-8: " + printable(text, 80));
  reader.ask({{"prompt", text}}, "prompt", {&setting, 1});
  return reader.take();
}

}  // namespace ft
