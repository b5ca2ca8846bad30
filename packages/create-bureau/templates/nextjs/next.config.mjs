export default {
  serverExternalPackages: ['@bureau/framework', '@bureau/server'],
  // Without it, Next.js would take the slash off the address of the console, which the server puts back.
  skipTrailingSlashRedirect: true,
  // Without it, a lock file in a folder above would make that folder the project.
  turbopack: { root: import.meta.dirname },
}
