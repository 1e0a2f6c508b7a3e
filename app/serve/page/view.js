const find = id => document.getElementById(id);
const log = find("log"), message = find("message"), settings = find("settings");

function element(tag, kind, text) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  return made;
}

function button(text, label, onClick) {
  const made = element("button", "", text);
  made.type = "button";
  made.setAttribute("aria-label", label);
  made.addEventListener("click", onClick);
  return made;
}

function say(text) {
  find("status").textContent = text;
}

// Copies a text. Pages of other machines have no clipboard of their own without https.
async function copy(text, what) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
  } else {
    const held = element("textarea");
    held.value = text;
    document.body.append(held);
    held.select();
    document.execCommand("copy");
    held.remove();
  }
  say("Copied " + what + ".");
}

function copyCurl(turn, lane, model) {
  if (settingsAreRight()) copy(asCurl(requestFor(turn, lane, model)), "a curl command");
}

function atBottom() {
  return log.scrollHeight - log.scrollTop - log.clientHeight < 60;
}

// Changes the log, and keeps its end in sight if it was.
function change(how) {
  const follow = atBottom();
  how();
  if (follow) log.scrollTop = log.scrollHeight;
}

// Shows an answer in its article.
function showAnswer(article, turn, lane) {
  const answer = state.turns[turn].answers[lane];
  const going = answer.going === true;
  const name = element("h2", "name", answer.model), text = element("div", "text", answer.text);
  if (answer.note) name.append(element("span", "note", answer.note));
  const parts = [name, text];
  if (answer.fault) parts.push(element("p", "fault", answer.fault));
  article.className = going ? "answer going" : "answer";
  article.setAttribute("aria-busy", going);
  if (!going) parts.push(toolsOf(answer, turn, lane));
  article.replaceChildren(...parts);
}

function toolsOf(answer, turn, lane) {
  const tools = element("div", "tools");
  if (answer.text)
    tools.append(button("Copy", "Copy the answer of " + answer.model, () => copy(answer.text, "the answer")));
  tools.append(button("Copy as curl", "Copy as curl: the request to " + answer.model,
    () => copyCurl(turn, lane, answer.model)));
  if (turn === state.turns.length - 1 && !busy())
    tools.append(button("Regenerate", "Regenerate the answer of " + answer.model, () => answerAgain(turn, lane)));
  return tools;
}

function userArticle(turn) {
  const article = element("article", "user");
  article.setAttribute("aria-label", "You");
  article.append(element("div", "text", state.turns[turn].user));
  const tools = element("div", "tools");
  if (!busy()) tools.append(button("Edit", "Edit this message", () => editMessage(article, turn)));
  article.append(tools);
  return article;
}

function editMessage(article, turn) {
  const box = element("textarea"), tools = element("div", "tools");
  box.value = state.turns[turn].user;
  box.rows = Math.min(12, box.value.split("\n").length + 1);
  box.setAttribute("aria-label", "Message");
  const later = state.turns.length - turn - 1;
  const text = later === 0 ? "Send" : "Send, and drop " + later + (later === 1 ? " later turn" : " later turns");
  const save = () => replaceMessage(turn, box.value);
  tools.append(button(text, text, save), button("Cancel", "Cancel", showAll));
  tools.firstChild.className = "first";
  box.addEventListener("keydown", event => {
    if (event.key === "Escape") showAll();
    if (isSend(event)) event.preventDefault(), save();
  });
  article.classList.add("edited");
  article.replaceChildren(box, tools);
  box.focus();
}

function turnElement(turn) {
  const whole = element("section", "turn");
  const lanes = state.turns[turn].answers.length;
  const answers = element("div", lanes > 1 ? "answers two" : "answers");
  for (let lane = 0; lane < lanes; ++lane) {
    const article = element("article");
    answers.append(article);
    showAnswer(article, turn, lane);
  }
  whole.append(userArticle(turn), answers);
  return whole;
}

function showAll() {
  change(() => {
    log.replaceChildren(...state.turns.map((_, turn) => turnElement(turn)));
    if (state.turns.length === 0)
      log.append(element("p", "empty", "Enter sends, Shift+Enter begins a new line, Escape stops an answer."));
  });
}

function articleOf(turn, lane) {
  return log.children[turn].querySelectorAll(".answer")[lane];
}
