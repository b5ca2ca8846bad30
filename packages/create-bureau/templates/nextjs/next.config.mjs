export default {
  output: 'standalone',
  serverExternalPackages: ['@bureau/framework', '@bureau/server'],
}
