import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import dockerignore from '@balena/dockerignore'
import { type Copy, DockerfileParser, type Env, type Instruction, type JSONInstruction } from 'dockerfile-ast'

/**
 * Builds and runs a Dockerfile without a container runtime: its instructions become a shell script in a mount namespace of
 * its own. Stages on a Debian image are this machine's files under an overlay, with another Node in place of its own; those on
 * `distroless/cc` begin with the libraries that such an image has, and nothing else.
 */

/** Uncompressed, as `docker images` shows gcr.io/distroless/cc-debian12. */
export const DISTROLESS_CC_MB = 25

/** Of the packages that make distroless/cc: libc6, libgcc-s1 and libstdc++6. */
const DISTROLESS_LIBRARIES =
  /^(?:ld-linux-[\w-]+\.so\.2|lib(?:c|m)\.so\.6|libdl\.so\.2|libpthread\.so\.0|libgcc_s\.so\.1|libstdc\+\+\.so\.6)$/

export type Image = {
  /** The folder that is the file system. */
  readonly root: string
  readonly env: Readonly<Record<string, string>>
  readonly user: { readonly uid: number; readonly gid: number }
  readonly workdir: string
  readonly entrypoint: readonly string[]
  readonly command: readonly string[]
  readonly healthcheck: readonly string[]
  readonly volumes: readonly string[]
}

/** Why this machine cannot do it; undefined when it can. */
export function whyNoContainers(): string | undefined {
  if (process.platform !== 'linux') return 'needs Linux'
  if (process.getuid?.() !== 0) return 'needs root'
  const { status } = spawnSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt'])
  return status === 0 ? undefined : 'this machine allows no mounts'
}

type Build = {
  readonly dockerfile: string
  /** The folder that is sent to the build, less what the `.dockerignore` beside the Dockerfile names. */
  readonly context: string
  /** An empty folder. */
  readonly scratch: string
  /** Files that every stage finds at their own absolute path: what a registry would deliver. */
  readonly registry: string
  /** The Node of the Debian image. */
  readonly node: string
}

/** @throws Error with everything that the build printed. */
export function buildImage({ dockerfile, context, scratch, registry, node }: Build): Image {
  const instructions = DockerfileParser.parse(readFileSync(dockerfile, 'utf8')).getInstructions()
  const root = path.join(scratch, 'image')
  const sent = sendContext(context, `${dockerfile}.dockerignore`, path.join(scratch, 'context'))
  const script = new BuildScript({ sent, stages: path.join(scratch, 'stages'), registry, node })
  for (const instruction of instructions) script.add(instruction)
  const file = path.join(scratch, 'build.sh')
  writeFileSync(file, script.finish(root))
  const { status, stdout, stderr } = spawnSync('unshare', ['--mount', 'bash', file], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`the build ended with ${status}:\n${stdout}${stderr}`)
  return { root, ...settingsOf(instructions) }
}

function sendContext(context: string, ignoreFile: string, target: string): string {
  const files = globSync('**/*', { cwd: context, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => path.relative(context, path.join(entry.parentPath, entry.name)))
  // A glob leaves out names with a dot in front.
  const hidden = globSync('{.*,**/.*}', { cwd: context })
  const ignored = dockerignore.default().add(readFileSync(ignoreFile, 'utf8'))
  for (const file of ignored.filter([...files, ...hidden])) {
    cpSync(path.join(context, file), path.join(target, file), { recursive: true })
  }
  return target
}

const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

type Places = Pick<Build, 'registry' | 'node'> & { readonly sent: string; readonly stages: string }

class BuildScript {
  readonly #places: Places
  readonly #lines = ['set -euo pipefail']
  readonly #stages = new Map<string, string>()
  #root = ''
  #workdir = '/'

  constructor(places: Places) {
    this.#places = places
  }

  add(instruction: Instruction): void {
    const words = instruction.getArguments().map((argument) => argument.getValue())
    switch (instruction.getKeyword()) {
      case 'FROM':
        return this.#from(words[0]!, words[2] ?? 'final')
      case 'WORKDIR':
        this.#workdir = words[0]!
        return this.#do(`mkdir -p ${this.#in(this.#workdir)}`)
      case 'COPY':
        return this.#copy(instruction as Copy, words)
      case 'RUN':
        return this.#run(instruction.getRawArgumentsContent()!)
    }
  }

  finish(image: string): string {
    return [...this.#lines, `mkdir -p ${quote(image)}`, `cp -a ${quote(this.#root)}/. ${quote(image)}`, ''].join('\n')
  }

  #do(...lines: readonly string[]): void {
    this.#lines.push(...lines)
  }

  /** A path of the stage, seen from outside. */
  #in(file: string): string {
    return quote(path.join(this.#root, path.posix.resolve(this.#workdir, file)))
  }

  #from(image: string, name: string): void {
    const folder = path.join(this.#places.stages, name)
    this.#root = path.join(folder, 'root')
    this.#workdir = '/'
    this.#stages.set(name, this.#root)
    this.#do(`mkdir -p ${quote(this.#root)}`)
    if (/^node:26[.\w]*-bookworm-slim$/.test(image)) this.#underlayMachine(folder)
    else if (image.startsWith('gcr.io/distroless/cc-debian12:')) this.#layLibraries()
    else throw new Error(`no stage can be made of ${image} here`)
  }

  #underlayMachine(folder: string): void {
    const [upper, work] = ['upper', 'work'].map((part) => quote(path.join(folder, part)))
    this.#do(
      `mkdir -p ${upper} ${work}`,
      `mount -t overlay overlay -o lowerdir=/,upperdir=${upper},workdir=${work} ${quote(this.#root)}`,
      ...['proc', 'dev'].map((mount) => `mount --rbind /${mount} ${this.#in(`/${mount}`)}`),
      `mkdir -p ${this.#in('/usr/local/bin')}`,
      `install ${quote(this.#places.node)} ${this.#in('/usr/local/bin/node')}`,
      `cat /etc/resolv.conf > ${this.#in('/etc/resolv.conf')}`,
      `rm -rf ${this.#in('/app')} ${this.#in('/data')}`,
    )
  }

  #layLibraries(): void {
    const libraries = librariesOf(this.#places.node).filter((file) => DISTROLESS_LIBRARIES.test(path.basename(file)))
    this.#do(
      `cp -L --parents ${libraries.map(quote).join(' ')} ${quote(this.#root)}`,
      `mkdir -p ${['/etc/ssl/certs', '/tmp', '/proc', '/dev'].map((folder) => this.#in(folder)).join(' ')}`,
      `chmod 1777 ${this.#in('/tmp')}`,
      `touch ${this.#in('/etc/resolv.conf')} ${this.#in('/etc/hosts')}`,
      `echo 'nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin' > ${this.#in('/etc/passwd')}`,
    )
  }

  /** What is copied belongs to root unless `--chown` says otherwise; of a folder its content. */
  #copy(instruction: Copy, words: readonly string[]): void {
    const flags = new Map(instruction.getFlags().map((flag) => [flag.getName(), flag.getValue()!]))
    const from = flags.has('from') ? this.#stages.get(flags.get('from')!)! : this.#places.sent
    const target = this.#in(words.at(-1)!)
    for (const word of words.slice(0, -1)) {
      const source = quote(path.join(from, word))
      const isInto = words.length > 2 || words.at(-1)!.endsWith('/')
      this.#do(
        `if [ -d ${source} ]; then mkdir -p ${target} && cp -a ${source}/. ${target}`,
        isInto
          ? `else mkdir -p ${target} && cp -a ${source} ${target}/; fi`
          : `else mkdir -p "$(dirname ${target})" && cp -a ${source} ${target}; fi`,
      )
    }
    if (words.at(-1) !== '.' && words.at(-1) !== './') this.#do(`chown -R ${flags.get('chown') ?? '0:0'} ${target}`)
  }

  #run(command: string): void {
    const { registry } = this.#places
    this.#do(
      `mkdir -p ${this.#in(registry)} && mount --bind ${quote(registry)} ${this.#in(registry)}`,
      `chroot ${quote(this.#root)} /usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin /bin/sh -ec ${quote(`cd ${this.#workdir}\n${command}`)}`,
    )
  }
}

function librariesOf(program: string): string[] {
  const printed = execFileSync('ldd', [program], { encoding: 'utf8' })
  return [...printed.matchAll(/(?:=> |^\s*)(\/\S+) \(/gm)].map(([, file]) => file!)
}

function settingsOf(instructions: readonly Instruction[]): Omit<Image, 'root'> {
  const last = instructions.slice(instructions.findLastIndex((each) => each.getKeyword() === 'FROM'))
  const all = (keyword: string): Instruction[] => last.filter((each) => each.getKeyword() === keyword)
  const json = (keyword: string): string[] =>
    (all(keyword)[0] as JSONInstruction).getJSONStrings().map((text) => JSON.parse(text.getValue()) as string)
  const properties = all('ENV').flatMap((env) => (env as Env).getProperties())
  const [uid, gid] = all('USER')[0]!.getArgumentsContent()!.split(':').map(Number)
  return {
    env: Object.fromEntries(properties.map((property) => [property.getName(), property.getUnescapedValue()!])),
    user: { uid: uid!, gid: gid! },
    workdir: all('WORKDIR').at(-1)!.getArgumentsContent()!,
    entrypoint: json('ENTRYPOINT'),
    command: json('CMD'),
    healthcheck: JSON.parse(all('HEALTHCHECK')[0]!.getArgumentsContent()!.replace(/^CMD /, '')) as string[],
    volumes: all('VOLUME').map((volume) => volume.getArgumentsContent()!),
  }
}

type Started = {
  /** A new volume, or one of an earlier container. */
  readonly volume: string
  readonly env?: Readonly<Record<string, string>>
  /** In place of that of the image. */
  readonly command?: readonly string[]
}

/** A new, empty volume below `scratch`, with the owner that the image gives it. */
export function newVolume(image: Image, scratch: string): string {
  const folder = mkdtempSync(path.join(scratch, 'volume-'))
  execFileSync('cp', ['-a', `${path.join(image.root, image.volumes[0]!)}/.`, folder])
  execFileSync('chown', [`--reference=${path.join(image.root, image.volumes[0]!)}`, folder])
  return folder
}

/**
 * Starts the image as `docker run --read-only --tmpfs /tmp -v …` does, but for the network, which is that of this machine.
 * The child is the server itself: what it is sent, the server gets.
 */
export function startContainer(image: Image, started: Started): ChildProcess {
  return spawnIn(image, started, [...image.entrypoint, ...(started.command ?? image.command)])
}

/** Runs another program in a container of the image. Resolves with its exit code. */
export async function runIn(
  image: Image,
  started: Omit<Started, 'command'>,
  command: readonly string[],
): Promise<number> {
  const [code] = (await once(spawnIn(image, started, command), 'exit')) as [number]
  return code
}

function spawnIn(image: Image, { volume, env = {} }: Started, command: readonly string[]): ChildProcess {
  const { root, user, workdir, volumes } = image
  const variables = Object.entries({ ...image.env, ...env }).map(([name, value]) => `${name}=${value}`)
  const enter = ['unshare', `--root=${root}`, `--wd=${workdir}`, `--setgid=${user.gid}`, `--setuid=${user.uid}`]
  const script = [
    'set -eu',
    `mount --bind ${quote(root)} ${quote(root)}`,
    `mount -o remount,bind,ro ${quote(root)}`,
    `mount -t tmpfs tmpfs ${quote(`${root}/tmp`)}`,
    `mount --bind ${quote(volume)} ${quote(root + volumes[0]!)}`,
    ...['/proc', '/dev', '/etc/hosts', '/etc/resolv.conf'].map((file) => `mount --rbind ${file} ${quote(root + file)}`),
    `exec env -i ${[...variables, ...enter, ...command].map(quote).join(' ')}`,
  ]
  mkdirSync(volume, { recursive: true })
  return spawn('unshare', ['--mount', 'bash', '-c', script.join('\n')], { stdio: ['ignore', 'pipe', 'pipe'] })
}
