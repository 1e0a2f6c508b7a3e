const running = new Set();  // the AbortController of each answer that is under way
const busy = () => running.size > 0;
const isSend = event => event.key === "Enter" && !event.shiftKey && !event.isComposing;

function showBusy() {
  const stopFocused = document.activeElement === find("stop");
  find("stop").hidden = !busy();
  find("send").hidden = busy();
  if (stopFocused && !busy()) message.focus();
}

function noteOf(end, seconds) {
  const tokens = end.usage ? end.usage.completion_tokens : 0;
  const ended = end.finish === "length" ? ", cut at its longest" : "";
  return tokens + (tokens === 1 ? " token" : " tokens") + ", " + (tokens / seconds).toPrecision(3) + " tok/s" + ended;
}

// Asks the model of an answer, and shows it while it comes.
async function answer(turn, lane) {
  const given = state.turns[turn].answers[lane], stop = new AbortController(), start = performance.now();
  const before = given.text;
  Object.assign(given, { text: "", note: "", fault: "", going: true });
  running.add(stop);
  showAnswer(articleOf(turn, lane), turn, lane);
  try {
    const end = await streamAnswer(requestFor(turn, lane, given.model), stop.signal, piece => {
      given.text += piece;
      change(() => articleOf(turn, lane).querySelector(".text").append(piece));
    });
    given.note = noteOf(end, Math.max(1e-3, (performance.now() - start) / 1000));
  } catch (wrong) {
    if (stop.signal.aborted) given.note = "stopped";
    else given.fault = wrong.message;
    if (given.text === "" && given.fault) given.text = before;  // a server that refuses takes no answer away
    if (wrong instanceof NeedsKey) askKey(wrong.message);
  }
  given.going = false;
  running.delete(stop);
}

// Has the turn's lanes answered, several at once.
async function answerLanes(turn, lanes) {
  say("Answering...");
  const asked = state.turns[turn].answers, given = lanes.map(lane => asked[lane]);
  const all = lanes.map(lane => answer(turn, lane));
  showAll();
  showBusy();
  await Promise.all(all);
  if (!state.turns[turn] || state.turns[turn].answers !== asked) return showBusy();  // a new chat has begun
  say(given.some(a => a.fault) ? "There is no answer." : given.some(a => a.note === "stopped") ? "Stopped." : "Answered.");
  saveState();
  showAll();
  showBusy();
}

const lanesOf = turn => state.turns[turn].answers.map((_, lane) => lane);

function send(text) {
  if (text.trim() === "" || busy() || !settingsAreRight()) return;
  const models = [find("model").value, find("beside").value].filter(name => name !== "");
  if (models.length === 0) return say("There is no model yet.");
  state.turns.push({ user: text, answers: models.map(model => ({ model, text: "" })) });
  message.value = "";
  showAll();
  log.scrollTop = log.scrollHeight;
  const turn = state.turns.length - 1;
  answerLanes(turn, lanesOf(turn));
}

function replaceMessage(turn, text) {
  if (text.trim() === "" || busy() || !settingsAreRight() || !find("model").value) return;
  state.turns.length = turn;
  send(text);
  message.focus();
}

function answerAgain(turn, lane) {
  answerLanes(turn, [lane]);
  find("stop").focus();
}

function stopAnswers() {
  for (const each of running) each.abort();
}

function fillModels(names) {
  const options = list => list.map(name => new Option(name, name));
  find("model").replaceChildren(...options(names));
  find("beside").replaceChildren(new Option("no other", ""), ...options(names));
  find("model").value = names.includes(state.models[0]) ? state.models[0] : names[0];
  find("beside").value = names.includes(state.models[1]) ? state.models[1] : "";
  find("beside").parentElement.hidden = names.length < 2;
}

function askKey(fault) {
  find("key-fault").textContent = fault;
  if (!find("key-dialog").open) find("key-dialog").showModal();
}

async function connect() {
  try {
    fillModels(await modelNames());
    say("");
    message.focus();
  } catch (wrong) {
    if (wrong instanceof NeedsKey) askKey(key ? wrong.message : "This server answers clients with its key.");
    else say("The server does not answer: " + wrong.message);
  }
}

function checkTemplateVariables() {
  const field = settings.elements.chat_template_kwargs;
  let fault = "";
  try {
    if (field.value && typeof JSON.parse(field.value) !== "object") fault = "an object, such as {\"a\": true}";
  } catch (wrong) {
    fault = "not JSON: " + wrong.message;
  }
  field.setCustomValidity(fault);
}

// Returns false, and shows the settings, if one of them is wrong.
function settingsAreRight() {
  if (settings.checkValidity()) return true;
  if (settings.hidden) toggleSettings();
  return settings.reportValidity();
}

// Switches off the settings that a text without turns does not have.
function showUsedSettings() {
  const turns = settings.elements.path.value === CHAT;
  for (const name of ["system", "chat_template_kwargs"]) settings.elements[name].disabled = !turns;
}

function readSettings() {
  checkTemplateVariables();
  showUsedSettings();
  for (const field of settings.elements) if (field.name) state.settings[field.name] = field.value;
  saveState();
}

function toggleSettings() {
  settings.hidden = !settings.hidden;
  find("show-settings").setAttribute("aria-expanded", !settings.hidden);
  if (!settings.hidden) settings.elements.system.focus();
}

function chooseModels() {
  state.models = [find("model").value, find("beside").value];
  saveState();
}

function newChat() {
  if (state.turns.length > 0 && !confirm("Forget this conversation?")) return;
  stopAnswers();
  state.turns = [];
  saveState();
  showAll();
  say("");
  message.focus();
}

find("composer").addEventListener("submit", event => (event.preventDefault(), send(message.value)));
message.addEventListener("keydown", event => {
  if (isSend(event)) event.preventDefault(), send(message.value);
});
document.addEventListener("keydown", event => event.key === "Escape" && stopAnswers());
find("stop").addEventListener("click", stopAnswers);
find("new").addEventListener("click", newChat);
find("show-settings").addEventListener("click", toggleSettings);
find("model").addEventListener("change", chooseModels);
find("beside").addEventListener("change", chooseModels);
settings.addEventListener("input", readSettings);
settings.addEventListener("submit", event => event.preventDefault());
find("key-form").addEventListener("submit", event => {
  event.preventDefault();
  keepKey(find("key").value);
  find("key-dialog").close();
  connect();
});

loadState();
for (const field of settings.elements)
  if (field.name && state.settings[field.name]) field.value = state.settings[field.name];
checkTemplateVariables();
showUsedSettings();
for (const turn of state.turns) for (const each of turn.answers) each.going = false;
showAll();
log.scrollTop = log.scrollHeight;
connect();
