# Seconds that a fetch may take, and between two looks for a free checkout.
FETCH_TIMEOUT = 600
FREE_CHECKOUT_INTERVAL = 2


def setting(name: str, default: str) -> str:
    """Returns a variable of Airflow, else of the environment."""
    return Variable.get(name.lower(), default=None) or os.environ.get(name) or default


class InCheckout(BaseOperator):
    """A task that calls trueup, in a checkout that no other task of this machine uses."""

    process: subprocess.Popen[bytes] | None = None
    stopping = False
    is_quiet = False
    said: list[str]

    @contextmanager
    def checkout(self) -> Iterator[tuple[str, int]]:
        """Takes the first checkout that is free. Its lock is handed on to trueup, which may outlive this task."""
        folders = setting("TRUEUP_CHECKOUT", DEFAULT_CHECKOUT).split(os.pathsep)
        while not self.stopping:
            for folder in folders:
                lock = os.open(
                    Path(self.git_folder(folder), "trueup-airflow.lock"),
                    os.O_RDWR | os.O_CREAT,
                    0o600,
                )
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(lock)
                    continue
                try:
                    yield folder, lock
                finally:
                    os.close(lock)
                return
            self.log.info("no checkout is free")
            time.sleep(FREE_CHECKOUT_INTERVAL)
        raise AirflowException("stopped before it was begun")

    def git_folder(self, folder: str) -> str:
        asked = ["git", "-C", folder, "rev-parse", "--absolute-git-dir"]
        found = subprocess.run(asked, capture_output=True, text=True, check=False)
        if found.returncode:
            raise AirflowFailException(
                f"TRUEUP_CHECKOUT: `{folder}` is no checkout: {found.stderr.strip()}"
            )
        return found.stdout.rstrip("\n")

    def revision(self, folder: str) -> str:
        """The commit that the operator wants, of what the checkout has fetched."""
        wanted = setting("TRUEUP_REVISION", "origin/HEAD")
        asked = ["git", "-C", folder, "rev-parse", "--verify", "--quiet"]
        asked += ["--end-of-options", wanted + "^{commit}"]
        found = subprocess.run(asked, capture_output=True, text=True, check=False)
        if found.returncode:
            raise AirflowFailException(
                f"TRUEUP_REVISION: there is no commit `{wanted}` in `{folder}`"
            )
        return found.stdout.strip()

    def fetch(self, folder: str) -> None:
        environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
        asked = ["git", "-C", folder, "fetch", "--quiet"]
        fetched = subprocess.run(
            asked, env=environment, timeout=FETCH_TIMEOUT, check=False
        )
        if fetched.returncode:
            raise AirflowException(
                f"`git fetch` in `{folder}` ended with code {fetched.returncode}"
            )

    def forward(self, folder: str) -> None:
        """Moves the checkout to the tip of its branch: there the site is found, and the begin compares the plan with it."""
        asked = ["git", "-C", folder, "-c", "core.hooksPath=/dev/null"]
        moved = subprocess.run(
            [*asked, "merge", "--ff-only", "--quiet"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if moved.returncode:
            self.log.warning(
                "`git merge --ff-only` in `%s`: %s", folder, moved.stderr.strip()
            )

    def call(
        self, words: list[str], folder: str, lock: int, timeout: float | None = None
    ) -> int:
        """Returns the code that trueup ends with; `said` is what it has printed."""
        self.said = []
        program = setting("TRUEUP_PROGRAM", "trueup")
        # In a session of its own, trueup has time to stop when Airflow kills the process group of the task.
        with subprocess.Popen(
            [program, "--color=never", *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[lock],
        ) as self.process:
            timer = threading.Timer(timeout or threading.TIMEOUT_MAX, self.terminate)
            timer.daemon = True
            timer.start()
            if self.stopping:
                self.terminate()
            for line in self.process.stdout or ():
                text = line.decode(errors="replace").rstrip("\n")
                self.said.append(text)
                if not self.is_quiet:
                    self.log.info("%s", text)
            timer.cancel()
        return self.process.returncode

    def on_kill(self) -> None:
        """Airflow stops the task: trueup writes down what it has begun, and ends."""
        self.stopping = True
        self.terminate()

    def terminate(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
